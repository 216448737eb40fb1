#pragma once

#include <optional>
#include <vector>

#include "qkv/core/tensor_view.h"
#include "viewer/picture.h"
#include "viewer/record.h"

namespace qkv::viewer {

/// Who looks at whom.
struct Link {
  TokenRun from, to;
};

/// A head of a model.
struct HeadId {
  Index layer = 0, head = 0;
};

/// Which tokens are shown, and how the weights of the others count.
struct Shown {
  std::vector<bool> visible;  ///< one for each token
  SpecialTokens special = SpecialTokens::kShow;
};

std::vector<bool> visible_tokens(const Record& record, SpecialTokens special);

/// Whether a token is a word to a reader: no special token, no punctuation.
bool is_content(const RecordToken& token);

/// What each row of the weights [len, len] of a head is divided by: its visible sum under kRenormalise (1 where that is
/// 0), else 1.
std::vector<double> row_divisors(CView<2> weights, const Shown& shown);

/// The mean over the rows of link.from of the sum over link.to, each row divided by its divisor.
double link_weight(CView<2> weights, const std::vector<double>& divisors, const Link& link);

/// a > b, where NaN is weaker than everything.
bool is_stronger(double a, double b);

/// Ends that a link must have.
struct LinkEnds {
  std::optional<TokenRun> from = std::nullopt, to = std::nullopt;
};

/// The strongest link in any of these heads between two visible words that have another word between them; where there
/// is none, between any two, else of a word to itself. Words are those of is_content; where there are none, every
/// visible token but special ones, else every visible one.
Link strongest_link(const Record& record, const std::vector<HeadId>& heads, const LinkEnds& ends, const Shown& shown);

}  // namespace qkv::viewer
