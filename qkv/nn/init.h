#pragma once

#include <optional>

#include "qkv/core/random.h"
#include "qkv/nn/linear.h"
#include "qkv/nn/multi_head_attention.h"

// New layers with random weights. The numbers are drawn from `random` in the order of parameters.h, so that layers made
// one after the other from one RandomStream have weights of their own; for a seed they are the same on every machine.

namespace qkv {

/// Sizes of a new Linear.
struct LinearShape {
  Index in_dim = 0;   ///< width of what it reads
  Index out_dim = 0;  ///< width of what it gives
  bool bias = true;   ///< whether it has one
};

/// A linear layer as PyTorch initialises nn.Linear: weight and bias uniform in [-bound, bound], bound = 1/sqrt(in_dim).
/// Errors: std::invalid_argument unless both sizes are positive.
Linear make_linear(const LinearShape& shape, RandomStream& random);

/// Sizes of a new MultiHeadAttention; most follow from embed_dim. As in the constructor of
///   PyTorch nn.MultiheadAttention  {.embed_dim, .num_heads, .key_dim = kdim, .value_dim = vdim}
///   d2l MultiHeadAttention         {.embed_dim = num_hiddens, .num_heads, .query_dim = query_size, ..., .bias = false}
///   SelfAttention (README, A)      {.embed_dim = hidden_size, .num_heads, .query_dim = input_size, .out_proj = false}
struct MultiHeadAttentionShape {
  Index embed_dim = 0;                               ///< Width of all heads together, and of the result.
  Index num_heads = 1;                               ///< Query heads.
  std::optional<Index> num_kv_heads = std::nullopt;  ///< Absent: num_heads.
  std::optional<Index> query_dim = std::nullopt;     ///< Width of the query. Absent: embed_dim.
  std::optional<Index> key_dim = std::nullopt;       ///< Width of the key. Absent: that of the query.
  std::optional<Index> value_dim = std::nullopt;     ///< Width of the value. Absent: that of the key.
  /// Absent: embed_dim / num_heads. Where it is given, embed_dim is only the width of the result of out_proj.
  std::optional<Index> head_dim = std::nullopt;
  std::optional<Index> v_head_dim = std::nullopt;  ///< Absent: head_dim.
  bool bias = true;                                ///< Of all projections.
  bool out_proj = true;                            ///< Without it the merged heads are the result.
  /// With kSplitThenProject each projection reads one of the slices into which its input is cut.
  HeadSplit head_split = HeadSplit::kProjectThenSplit;
  double dropout = 0;  ///< Probability of dropping a weight, in training runs only.
};

/// Multi-head attention whose projections are initialised as by make_linear(); its scoring is the scaled dot product.
/// (nn.MultiheadAttention of PyTorch starts otherwise: in_proj_weight as Xavier and Bengio say, biases at 0.)
/// Errors: std::invalid_argument unless all sizes are positive, num_kv_heads divides num_heads, num_heads divides
///   embed_dim where head_dim is absent, and the number of heads the width of each input that is cut into slices.
MultiHeadAttention make_multi_head_attention(const MultiHeadAttentionShape& shape, RandomStream& random);

/// Sizes of the network of additive scoring.
struct AdditiveShape {
  Index hidden_dim = 0;                            ///< Hidden units.
  Index head_dim = 0;                              ///< Of the queries.
  std::optional<Index> k_head_dim = std::nullopt;  ///< Absent: head_dim.
};

/// Weights for MultiHeadAttention::scoring, each initialised as a linear layer without bias: w_q, w_k, then w_v.
/// Errors: std::invalid_argument unless all sizes are positive.
AdditiveWeights make_additive_weights(const AdditiveShape& shape, RandomStream& random);

}  // namespace qkv
