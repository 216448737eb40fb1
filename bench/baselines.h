#pragma once

#include "qkv/core/executor.h"
#include "qkv/core/tensor.h"
#include "qkv/kernels/attention_args.h"

// What qkv is measured beside in attention_bench.cc: dot-product scores with a scale, attn_bias and any mask; nothing else of the contract.
namespace qkv::bench {

using Args = kernels::AttentionArgs<float>;

/// How many pairs of query and key the masks let through, over all batch entries and heads.
double visible_pairs(const Args& args);

/// Masks and attn_bias as most programs pass them: one tensor to add to the scores, -inf where a key is excluded,
/// [batch, num_heads, q_len, kv_len].
Tensor<float, 4> dense_bias(const Args& args);

/// Attention as a textbook writes it, three plain loops for each query, heads in parallel.
/// Shapes: bias as dense_bias(); out [batch, num_heads, q_len, v_head_dim].
void naive_attention(const Args& args, CView<4> bias, View<4> out, Executor& executor);

/// Memory for unfused_attention().
struct UnfusedScratch {
  Tensor<float, 4> scores;        ///< [batch, num_heads, q_len, kv_len]
  Tensor<float, 4> v_transposed;  ///< [batch, num_kv_heads, v_head_dim, kv_len]
};

/// Of the size that a call takes.
UnfusedScratch unfused_scratch(const Args& args);

/// Attention with all scores stored: a product by qkv's own Linear kernel, softmax row by row, a second product. Heads in parallel.
void unfused_attention(const Args& args, CView<4> bias, View<4> out, UnfusedScratch& scratch, Executor& executor);

/// Whether every 61st row of `out` is what the naive loops give in double, within 1e-4.
bool is_right(const Args& args, CView<4> out, Executor& executor);

}  // namespace qkv::bench
