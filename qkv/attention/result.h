#pragma once

#include <optional>

#include "qkv/core/tensor.h"

namespace qkv {

/// What attention() returns. A tensor that Observe did not ask for is empty.
struct AttentionResult {
  Tensor<float, 4> out;           ///< [batch, num_heads, q_len, v_head_dim]
  Tensor<float, 3> lse;           ///< [batch, num_heads, q_len]
  Tensor<float, 3> entropy;       ///< [batch, num_heads, q_len]
  Tensor<float, 4> attn_weights;  ///< [batch, num_heads, q_len, kv_len]
};

/// Where attention_into() writes: the caller's memory, same shapes, any strides (last axis of out and attn_weights: 1).
struct AttentionOutput {
  AttentionOutput(View<4> out_view) : out(out_view) {}  // NOLINT(google-explicit-constructor)

  View<4> out;
  std::optional<View<3>> lse = std::nullopt, entropy = std::nullopt;
  std::optional<View<4>> attn_weights = std::nullopt;
};

}  // namespace qkv
