#pragma once

#include "qkv/core/tensor.h"
#include "qkv/kernels/attention_args.h"

namespace qkv {

/// What attention() returns. A tensor that Observe did not ask for is empty.
template <class T>
struct BasicAttentionResult {
  Tensor<T, 4> out;           ///< [batch, num_heads, q_len, v_head_dim]
  Tensor<T, 3> lse;           ///< [batch, num_heads, q_len]
  Tensor<T, 3> entropy;       ///< [batch, num_heads, q_len]
  Tensor<T, 4> attn_weights;  ///< [batch, num_heads, q_len, kv_len]
};

/// Where attention_into() writes: `out` and, where they are given, lse, entropy and attn_weights.
template <class T>
using BasicAttentionOutput = kernels::AttentionOutput<T>;

/// Of a call on floats.
/// @{
using AttentionResult = BasicAttentionResult<float>;
using AttentionOutput = BasicAttentionOutput<float>;
/// @}

}  // namespace qkv
