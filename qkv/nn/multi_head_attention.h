#pragma once

#include <optional>

#include "qkv/attention/options.h"
#include "qkv/core/tensor.h"
#include "qkv/nn/linear.h"

namespace qkv {

/// Attention between learned projections, several heads side by side:
///   out = out_proj(concat_h softmax(scale * Q_h K_h^T) V_h),   Q = q_proj(query), K = k_proj(key), V = v_proj(value)
/// Head h owns columns h * head_dim .. (h + 1) * head_dim - 1 of Q, K and V ("project, then split").
struct MultiHeadAttention {
  Linear q_proj;  ///< weight [num_heads * head_dim, embed_dim]
  Linear k_proj;  ///< weight [num_kv_heads * head_dim, width of key]
  Linear v_proj;  ///< weight [num_kv_heads * v_head_dim, width of value]
  /// weight [embed_dim, num_heads * v_head_dim]; absent: the merged heads are the result.
  std::optional<Linear> out_proj = std::nullopt;
  Index num_heads = 1;
  /// Divides num_heads; absent: num_heads.
  std::optional<Index> num_kv_heads = std::nullopt;
};

/// What may differ from call to call; the fields mean what they mean in AttentionOptions. Borrows what it points to.
struct MultiHeadAttentionOptions {
  std::optional<double> scale = std::nullopt;
  std::optional<double> softcap = std::nullopt;
  std::optional<CView<4>> attn_bias = std::nullopt;
  Mask mask = {};
  Observe observe = {};
};

/// A tensor that Observe did not ask for is empty.
struct MultiHeadAttentionResult {
  Tensor<float, 3> out;           ///< [batch, q_len, embed_dim]
  Tensor<float, 3> lse;           ///< [batch, num_heads, q_len]
  Tensor<float, 3> entropy;       ///< [batch, num_heads, q_len]
  Tensor<float, 4> attn_weights;  ///< [batch, num_heads, q_len, kv_len], per head: never averaged
};

/// Self-attention where query, key and value are one view, cross-attention where they are not.
/// Shapes (any strides, last axis 1; rank 2 views read as a batch of 1): query [batch, q_len, width of q_proj],
///   key [batch, kv_len, width of k_proj], value [batch, kv_len, width of v_proj].
/// Heads are split and merged by strides: no copy.
/// Edge: as attention(); a query without a visible key gives the bias of out_proj. valid_lens hides keys, not queries:
///   rows of padding are computed like any other and no one reads them.
/// Errors: std::invalid_argument, before any work, if a projection's width is not a multiple of its number of heads,
///   head_dim of queries and keys differ, out_proj does not fit, and as of Linear and attention().
/// Threads: runs on run.executor; the bits of the result do not depend on the number of threads.
/// Source: https://arxiv.org/abs/1706.03762, 3.2.2.
MultiHeadAttentionResult forward(const MultiHeadAttention& layer, CView<3> query, CView<3> key, CView<3> value,
                                 const MultiHeadAttentionOptions& options = {}, const Run& run = {});

}  // namespace qkv
