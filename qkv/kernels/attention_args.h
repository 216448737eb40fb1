#pragma once

#include <optional>

#include "qkv/core/tensor_view.h"

namespace qkv::kernels {

/// One attention call after attention/resolve: every shape agrees, every default is filled in, every mask has the full
/// shape [batch, num_heads, q_len, kv_len] (broadcast axes have stride 0). Kernels trust it and check nothing.
template <class T>
struct AttentionArgs {
  TensorView<const T, 4> q, k, v;
  T scale = 1;
  std::optional<T> softcap = std::nullopt;
  std::optional<TensorView<const T, 4>> attn_bias = std::nullopt;

  bool causal = false;
  std::optional<Index> window_left = std::nullopt, window_right = std::nullopt;
  TensorView<const Index, 1> q_start;                                   ///< [batch]; position of query 0
  std::optional<TensorView<const Index, 2>> valid_lens = std::nullopt;  ///< [batch, q_len]
  std::optional<TensorView<const bool, 4>> keep = std::nullopt;

  Index batch() const { return q.shape(0); }
  Index num_heads() const { return q.shape(1); }
  Index q_len() const { return q.shape(2); }
  Index head_dim() const { return q.shape(3); }
  Index kv_len() const { return k.shape(2); }
  Index v_head_dim() const { return v.shape(3); }
  Index group_size() const { return q.shape(1) / k.shape(1); }
};

/// Where a kernel writes.
template <class T>
struct AttentionOut {
  TensorView<T, 4> out;
  std::optional<TensorView<T, 3>> lse = std::nullopt, entropy = std::nullopt;
  std::optional<TensorView<T, 4>> attn_weights = std::nullopt;
};

}  // namespace qkv::kernels
