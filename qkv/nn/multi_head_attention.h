#pragma once

#include <optional>
#include <variant>

#include "qkv/attention/options.h"
#include "qkv/core/tensor.h"
#include "qkv/nn/linear.h"

namespace qkv {

/// The learned parameters of additive scoring, w_v . tanh(w_q q + w_k k). Every head uses the same.
struct AdditiveWeights {
  Tensor<float, 2> w_q;  ///< [hidden_dim, head_dim]
  Tensor<float, 2> w_k;  ///< [hidden_dim, head_dim of the keys, which may then differ from that of the queries]
  Tensor<float, 1> w_v;  ///< [hidden_dim]
};

/// The score of a layer, as Scoring, but with parameters that the layer owns.
using LayerScoring = std::variant<DotScoring, CosineScoring, AdditiveWeights>;

/// The two readings of "split into heads".
///   kProjectThenSplit (the usual one): the projection reads the whole input; head h owns outputs
///     h * head_dim .. (h + 1) * head_dim - 1.
///   kSplitThenProject: head h reads only slice h of num_heads equal slices of the input, through a matrix of its own.
///     That is the first with block-diagonal matrices, at 1 / num_heads of their parameters and products.
enum class HeadSplit { kProjectThenSplit, kSplitThenProject };

/// Attention between learned projections, several heads side by side:
///   out = out_proj(concat_h softmax(scale * score(Q_h, K_h)) V_h),
///   Q = q_proj(query),   K = k_proj(key),   V = v_proj(value)
/// The weights of q_proj have the shape [num_heads * head_dim, width of query], those of k_proj
/// [num_kv_heads * head_dim, width of key], those of v_proj [num_kv_heads * v_head_dim, width of value]; num_heads *
/// head_dim need not be the width of anything. With kSplitThenProject the widths are those of one slice, width /
/// num_heads for q_proj and width / num_kv_heads for k_proj and v_proj, and rows h * head_dim .. are head h's matrix.
struct MultiHeadAttention {
  Linear q_proj;  ///< of the query
  Linear k_proj;  ///< of the key
  Linear v_proj;  ///< of the value
  /// weight [embed_dim, num_heads * v_head_dim]; absent: the merged heads are the result.
  std::optional<Linear> out_proj = std::nullopt;
  Index num_heads = 1;  ///< query heads
  /// Divides num_heads; absent: num_heads.
  std::optional<Index> num_kv_heads = std::nullopt;
  HeadSplit head_split = HeadSplit::kProjectThenSplit;  ///< what each head reads
  LayerScoring scoring = DotScoring{};                  ///< how a query and a key are compared
  /// Probability of dropping an attention weight, in training runs only.
  double dropout = 0;
};

/// What may differ from call to call; the fields mean what they mean in AttentionOptions. Borrows what it points to.
struct MultiHeadAttentionOptions {
  std::optional<double> scale = std::nullopt;        ///< multiplier of the score
  std::optional<double> softcap = std::nullopt;      ///< tanh cap of the scores
  std::optional<CView<4>> attn_bias = std::nullopt;  ///< added to the scores
  Mask mask = {};                                    ///< which keys a query may see
  Observe observe = {};                              ///< what to return beside `out`
};

/// A tensor that Observe did not ask for is empty.
struct MultiHeadAttentionResult {
  Tensor<float, 3> out;           ///< [batch, q_len, embed_dim]
  Tensor<float, 3> lse;           ///< [batch, num_heads, q_len]
  Tensor<float, 3> entropy;       ///< [batch, num_heads, q_len]
  Tensor<float, 4> attn_weights;  ///< [batch, num_heads, q_len, kv_len]; average_heads() in mha_compat.h averages
};

/// Self-attention where query, key and value are one view, cross-attention where they are not.
/// Shapes (any strides, last axis 1; rank 2 views read as a batch of 1): query [batch, q_len, width],
///   key [batch, kv_len, width], value [batch, kv_len, width], each width that of its projection.
/// Heads are split and merged by strides: no copy.
/// Edge: as attention(); a query without a visible key gives the bias of out_proj. valid_lens hides keys, not queries:
///   rows of padding are computed like any other and no one reads them.
/// Errors: std::invalid_argument, before any work, if a projection's out_dim is not a multiple of its number of heads,
///   head_dim of queries and keys differ (but for additive scoring), out_proj does not fit, dropout is not in 0 .. 1,
///   and as of Linear and attention().
/// Threads: runs on run.executor; the bits of the result do not depend on the number of threads.
/// Source: https://arxiv.org/abs/1706.03762, 3.2.2.
MultiHeadAttentionResult forward(const MultiHeadAttention& layer, CView<3> query, CView<3> key, CView<3> value,
                                 const MultiHeadAttentionOptions& options = {}, const Run& run = {});

}  // namespace qkv
