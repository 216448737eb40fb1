#pragma once

#include "qkv/core/tensor.h"
#include "qkv/kernels/attention_args.h"

namespace qkv {

/// What attention() returns. A tensor that Observe did not ask for is empty.
struct AttentionResult {
  Tensor<float, 4> out;           ///< [batch, num_heads, q_len, v_head_dim]
  Tensor<float, 3> lse;           ///< [batch, num_heads, q_len]
  Tensor<float, 3> entropy;       ///< [batch, num_heads, q_len]
  Tensor<float, 4> attn_weights;  ///< [batch, num_heads, q_len, kv_len]
};

/// Where attention_into() writes: `out` and, where they are given, lse, entropy and attn_weights.
using AttentionOutput = kernels::AttentionOutput<float>;

}  // namespace qkv
