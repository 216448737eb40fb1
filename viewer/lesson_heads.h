#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/core/executor.h"
#include "qkv/core/tensor.h"
#include "qkv/models/any_model.h"
#include "viewer/lesson.h"
#include "viewer/record.h"

namespace qkv::viewer {

// The lesson on one head against several, in a real model: how much of its weight a token gives to itself (the diagonal
// mass), without learned weights, with one head, and with the heads the model was trained with.

/// Where the weight of the average query goes. The shares sum to 1.
struct Shares {
  double self = 0;          ///< diagonal mass
  double previous = 0;      ///< the token before, unless it is special
  double next = 0;          ///< the token after, unless it is special
  double cls = 0, sep = 0;  ///< special tokens before the text; those after it or in it
  double other = 0;
};

/// Where a share of Shares goes.
enum class Place { kSelf, kPrevious, kNext, kCls, kSep };
inline constexpr Place kPlaces[] = {Place::kSelf, Place::kPrevious, Place::kNext, Place::kCls, Place::kSep};

double share_of(const Shares& shares, Place place);

/// The place that gets at least half of the weight, if there is one.
std::optional<Place> main_place(const Shares& shares);

/// What one matrix of weights does, on average over the queries.
struct Look {
  Shares shares;
  /// How many tokens the weight is spread over: e to the entropy, 1 where one token has all of it.
  double num_keys = 0;
};

struct LayerLook {
  /// Without learned weights: softmax(x x^T / sqrt(embed_dim)), x being what enters the layer.
  Look plain;
  /// The layer's own W_q and W_k (which were trained as several heads) as a single head as wide as all together.
  Look one_head;
  std::vector<Look> heads;  ///< as trained
  Look together;            ///< the mean of the weights of all heads
  /// How many different tokens the heads look at most from the same query: 1 to num_heads; a single head has 1.
  double num_strongest = 0;
};

struct HeadsLesson {
  std::string model;
  std::vector<RecordToken> tokens;
  Index num_queries = 0;  ///< tokens that were averaged over: those that are not special; all, where all are
  Index embed_dim = 0;
  std::vector<LayerLook> layers;

  Index len() const { return static_cast<Index>(tokens.size()); }
  Index num_heads() const { return layers.empty() ? 0 : static_cast<Index>(layers.front().heads.size()); }
};

/// What a reader calls a place: "itself", "previous", "next", and the special tokens by their own names.
std::string place_name(const HeadsLesson& lesson, Place place);

/// How many heads look mostly at a place, or at no one place.
Index num_heads_at(const LayerLook& layer, std::optional<Place> place);
Index num_heads_at(const HeadsLesson& lesson, std::optional<Place> place);

/// What the lesson is measured on. Borrows.
struct HeadsInput {
  const std::string& model_name;
  const AnyModel& model;
  std::span<const std::int32_t> ids;
  const std::vector<RecordToken>& tokens;  ///< one for each id
};

/// Runs the model and measures. Errors: std::invalid_argument if there are no tokens, not as many as ids, or more than
///   the model reads.
HeadsLesson measure_heads(const HeadsInput& input, Executor* executor = nullptr);

/// What the numbers say of the tutorial's claims.
std::vector<Claim> claims_of(const HeadsLesson& lesson);

/// The average query's look. Shapes: attn_weights [len, len], one token for each. Errors: std::invalid_argument for
///   other shapes.
Look look_of(CView<2> attn_weights, const std::vector<RecordToken>& tokens);

/// On average over the queries, how many different keys are the strongest of some head.
/// Shape: attn_weights [num_heads, len, len].
double num_strongest_keys(CView<3> attn_weights, const std::vector<RecordToken>& tokens);

/// Attention of a single head as wide as the whole: the weights [len, len] of softmax(q k^T / sqrt(width)).
/// Shapes: q, k [1, len, width].
Tensor<float, 4> one_head_weights(CView<3> q, CView<3> k, Executor* executor = nullptr);

}  // namespace qkv::viewer
