#pragma once

#include <optional>
#include <string>
#include <vector>

#include "qkv/core/tensor.h"
#include "viewer/record.h"

namespace qkv::viewer {

/// What becomes of special tokens such as [CLS].
enum class SpecialTokens {
  kShow,
  kHide,         ///< left out; the other weights keep their values, and what is hidden is said
  kRenormalise,  ///< left out; the weights of each row are scaled so that they sum to 1 again
};

/// How much a head's `from` looks at a token.
struct TokenWeight {
  Index token = 0;
  float weight = 0;
};

/// One line of a ranking of heads.
struct RankedHead {
  Index layer = 0, head = 0;
  float weight = 0;               ///< of the link that the heads are ranked by
  std::vector<TokenWeight> next;  ///< the words that `from` looks at most beside `to` and itself, strongest first
};

/// One head, ready to be drawn: every rendering shows these numbers and no others.
struct Picture {
  std::string model;
  Index num_layers = 0, num_heads = 0, num_tokens = 0;  ///< of the model and the text, special tokens counted
  Index layer = 0, head = 0;
  SpecialTokens special = SpecialTokens::kShow;
  bool words = false;  ///< pieces were merged into words

  std::vector<RecordToken> queries, keys;  ///< what the rows and the columns stand for
  Tensor<float, 2> weights;                ///< [queries, keys]
  std::vector<RecordToken> hidden_keys;    ///< keys left out
  Tensor<float, 2> hidden_weights;         ///< [queries, hidden_keys], before any rescaling

  std::optional<TokenRun> from, to;  ///< places in queries and in keys
  std::string reason;                ///< why this row and this head, where the user did not say
  std::vector<RankedHead> ranking;   ///< strongest first; empty where one head was asked for
};

/// Which picture is wanted.
struct PictureOptions {
  std::optional<Index> layer = std::nullopt, head = std::nullopt;
  std::optional<TokenRun> from = std::nullopt, to = std::nullopt;  ///< places in Record::tokens
  bool words = false;
  SpecialTokens special = SpecialTokens::kShow;
};

/// Chooses row and head, ranks the heads, merges words and hides tokens as asked.
///
/// Link: the weight from a run to a run is the mean over the first one's tokens of the sum over the second one's.
/// Ranking: all heads that layer and head leave, by the weight of from -> to; the first one is shown.
/// What is not given is picked: the strongest link in any of these heads between two words that are not neighbours.
///   Special tokens and punctuation are no words here; neighbours count only where there are no others.
/// Errors: std::out_of_range for a layer, head or run that is not there; std::invalid_argument if `from` or `to` is
///   hidden, or if nothing is left to show.
Picture make_picture(const Record& record, const PictureOptions& options);

/// The mean over the rows of `from`: what the run looks at, one weight for each key.
std::vector<float> row_of(CView<2> weights, TokenRun from);

}  // namespace qkv::viewer
