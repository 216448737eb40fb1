#pragma once

#include <optional>
#include <variant>

#include "qkv/core/tensor_view.h"

/// Inner loops: raw views, no checks.
namespace qkv::kernels {

/// score = q . k. Default scale 1 / sqrt(head_dim); with scale = 1 it is the plain dot product.
struct DotScoring {};

/// score = q . k / (|q| |k|), 0 where a norm is 0. Default scale 1.
struct CosineScoring {};

/// score = w_v . tanh(w_q q + w_k k), the score of a small network (Bahdanau et al., arXiv:1409.0473). Default scale 1.
/// Borrows.
template <class T>
struct AdditiveScoring {
  TensorView<const T, 2> w_q;  ///< [hidden_dim, head_dim]
  TensorView<const T, 2> w_k;  ///< [hidden_dim, head_dim of k], which may differ from that of q
  TensorView<const T, 1> w_v;  ///< [hidden_dim]
};

/// Which score a call uses.
template <class T>
using Scoring = std::variant<DotScoring, CosineScoring, AdditiveScoring<T>>;

/// One attention call after attention/resolve: every shape agrees, every default is filled in, every mask has the full
/// shape [batch, num_heads, q_len, kv_len] (broadcast axes have stride 0). Kernels trust it and check nothing.
template <class T>
struct AttentionArgs {
  TensorView<const T, 4> q;                                        ///< [batch, num_heads, q_len, head_dim]
  TensorView<const T, 4> k;                                        ///< [batch, num_kv_heads, kv_len, k_head_dim]
  TensorView<const T, 4> v;                                        ///< [batch, num_kv_heads, kv_len, v_head_dim]
  Scoring<T> scoring = DotScoring{};                               ///< how alike a query and a key are
  T scale = 1;                                                     ///< multiplier of the score
  std::optional<T> softcap = std::nullopt;                         ///< s = softcap * tanh(s / softcap)
  std::optional<TensorView<const T, 4>> attn_bias = std::nullopt;  ///< added to scores; -inf excludes

  bool causal = false;                                                  ///< key j is visible iff j <= q_start + i
  std::optional<Index> window_left = std::nullopt;                      ///< keys seen to the left; absent = all
  std::optional<Index> window_right = std::nullopt;                     ///< keys seen to the right; absent = all
  TensorView<const Index, 1> q_start;                                   ///< [batch]; position of query 0
  std::optional<TensorView<const Index, 2>> valid_lens = std::nullopt;  ///< [batch, q_len]
  std::optional<TensorView<const bool, 4>> keep = std::nullopt;         ///< true = may attend

  /// The sizes of the call, as its shapes have them.
  /// @{
  Index batch() const { return q.shape(0); }
  Index num_heads() const { return q.shape(1); }
  Index q_len() const { return q.shape(2); }
  Index head_dim() const { return q.shape(3); }
  Index k_head_dim() const { return k.shape(3); }
  Index kv_len() const { return k.shape(2); }
  Index v_head_dim() const { return v.shape(3); }
  Index group_size() const { return q.shape(1) / k.shape(1); }
  /// @}
  /// The score function of `additive`, or null.
  const AdditiveScoring<T>* additive() const { return std::get_if<AdditiveScoring<T>>(&scoring); }
};

/// Where a call writes: the caller's memory, any strides (last axis of out and attn_weights: 1).
template <class T>
struct AttentionOutput {
  /// Only `out` is wanted, until other views are given.
  AttentionOutput(TensorView<T, 4> out_view) : out(out_view) {}  // NOLINT(google-explicit-constructor)

  TensorView<T, 4> out;                                         ///< [batch, num_heads, q_len, v_head_dim]
  std::optional<TensorView<T, 3>> lse = std::nullopt;           ///< [batch, num_heads, q_len]
  std::optional<TensorView<T, 3>> entropy = std::nullopt;       ///< [batch, num_heads, q_len]
  std::optional<TensorView<T, 4>> attn_weights = std::nullopt;  ///< [batch, num_heads, q_len, kv_len]
};

}  // namespace qkv::kernels
