#pragma once

#include "qkv/attention/options.h"
#include "qkv/attention/plan.h"
#include "qkv/attention/result.h"
#include "qkv/core/tensor_view.h"

namespace qkv {

/// Attention without storing the score matrix: scaled dot-product, or another score by options.scoring.
///
///   S = cap(scale * score(Q, K)) + attn_bias;   P = softmax of each row of S over its visible keys;   out = P V
///
/// Shapes (any strides, 0 and negative included; the last axis must have stride 1; rank 2 and 3 views read as leading axes of 1):
///   q [batch, num_heads, q_len, head_dim]
///   k [batch, num_kv_heads, kv_len, head_dim],  v [batch, num_kv_heads, kv_len, v_head_dim]
///   Query head h reads key/value head h / group_size, group_size = num_heads / num_kv_heads. Additive scoring takes keys of another
///   width than queries.
/// Returns out [batch, num_heads, q_len, v_head_dim] and whatever options.observe asks for.
/// Edge: a query that may see no key gets out = 0, weights = 0, lse = -inf, entropy = 0. With kv_len = 5, q_len = 2 and
///   causal = true the visible keys are (lower right)     1 1 1 1 0
///                                                        1 1 1 1 1
///   Any length may be 0. Excluded keys and values contribute exactly nothing, NaN or not; keys at or beyond the largest valid_lens
///   of their batch entry are never read.
/// Errors: std::invalid_argument, before any work, if shapes disagree, a width is not 1 to 2^22 or a length beyond 2^48, num_heads is
///   not a multiple of num_kv_heads, a last-axis stride is not 1, scale or softcap is out of range, a valid_lens is negative or > kv_len,
///   a window side is negative, a position is beyond +-2^60, or the weights of additive scoring do not fit. NaN and Inf in q, k, v are not errors; they give
///   non-finite rows.
/// Cost: 2 * visible pairs * (head_dim + v_head_dim) flops a head (half as much again with attn_weights), for additive scoring
///   2 * visible pairs * v_head_dim and a share of a division for each pair and hidden unit; scratch is linear in the widths, for each
///   worker (see AttentionPlan).
/// Precision: float, or all of it in double where q, k and v are double.
/// Threads: runs on options.executor; the bits of the result do not depend on the number of threads.
/// Source: FlashAttention-2, arXiv:2307.08691, algorithm 1; online softmax, arXiv:1805.02867.
/// @{
AttentionResult attention(CView<4> q, CView<4> k, CView<4> v, const AttentionOptions& options = {});
BasicAttentionResult<double> attention(TensorView<const double, 4> q, TensorView<const double, 4> k,
                                       TensorView<const double, 4> v,
                                       const BasicAttentionOptions<double>& options = {});
/// @}

/// The same into memory of the caller's, which must not overlap q, k or v. What is written is what `output` has a view for
/// (options.observe must not ask for more). With the calling-thread executor and a workspace that has served a call of these shapes before,
/// nothing is allocated.
/// Errors: as attention(), and where a view of `output` has another shape than the result; then nothing was written.
/// @{
void attention_into(const AttentionOutput& output, CView<4> q, CView<4> k, CView<4> v, const AttentionOptions& options,
                    Workspace& workspace);
void attention_into(const BasicAttentionOutput<double>& output, TensorView<const double, 4> q,
                    TensorView<const double, 4> k, TensorView<const double, 4> v,
                    const BasicAttentionOptions<double>& options, Workspace& workspace);
/// @}

}  // namespace qkv
