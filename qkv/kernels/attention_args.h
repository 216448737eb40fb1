#pragma once

#include <cstdint>
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

/// Document ids: a query and a key see each other iff theirs are equal.
struct DocumentIds {
  TensorView<const Index, 2> q;  ///< [batch, q_len]
  TensorView<const Index, 2> k;  ///< [batch, kv_len]
};

/// A ragged batch: sequence s owns queries q[s] .. q[s+1]-1 and keys k[s] .. k[s+1]-1 of the one batch entry.
struct SequenceBounds {
  TensorView<const Index, 1> q;  ///< [num_sequences + 1], from 0 to q_len
  TensorView<const Index, 1> k;  ///< [num_sequences + 1], from 0 to kv_len
};

/// Which weights are dropped after the softmax. Weight (b, h, i, j) is dropped iff its 16 random bits are below `threshold`; the others are
/// multiplied by 65536 / (65536 - threshold). The bits are number j % 8 of the eight, low half of each word first, that
/// philox4x32<7>(counter, key) gives for counter = {i, j / 8, h, batch_start + b} and key = {seed, seed >> 32}, all modulo 2^32.
struct DropoutBits {
  std::uint32_t threshold;    ///< the probability in units of 2^-16, rounded: 0 to 65536
  std::uint64_t seed;         ///< the key of the generator
  std::uint32_t batch_start;  ///< what batch entry 0 of this call counts as
};

/// One attention call after attention/resolve: every shape agrees, every default is filled in, every mask has the full
/// shape [batch, num_heads, q_len, kv_len] (broadcast axes have stride 0). Kernels trust it and check nothing.
template <class T>
struct AttentionArgs {
  /// Everything but q, k and v is as the members say until it is set. (An aggregate would be zeroed as a block first.)
  AttentionArgs(const TensorView<const T, 4>& q_view, const TensorView<const T, 4>& k_view,
                const TensorView<const T, 4>& v_view)
      : q(q_view), k(k_view), v(v_view) {}

  TensorView<const T, 4> q;                                           ///< [batch, num_heads, q_len, head_dim]
  TensorView<const T, 4> k;                                           ///< [batch, num_kv_heads, kv_len, k_head_dim]
  TensorView<const T, 4> v;                                           ///< [batch, num_kv_heads, kv_len, v_head_dim]
  Scoring<T> scoring = DotScoring{};                                  ///< how alike a query and a key are
  T scale = 1;                                                        ///< multiplier of the score
  std::optional<T> softcap = std::nullopt;                            ///< s = softcap * tanh(s / softcap)
  std::optional<TensorView<const T, 4>> attn_bias = std::nullopt;     ///< added to scores; -inf excludes
  std::optional<TensorView<const T, 1>> alibi_slopes = std::nullopt;  ///< [num_heads]: score -= slope * |position - j|
  std::optional<TensorView<const T, 1>> sinks = std::nullopt;         ///< [num_heads]: logit of one more, valueless key

  bool causal = false;                               ///< key j is visible iff j <= q_start + i
  std::optional<Index> window_left = std::nullopt;   ///< keys seen to the left; absent = all
  std::optional<Index> window_right = std::nullopt;  ///< keys seen to the right; absent = all
  /// [batch], or [num_sequences]: position of the first query. Absent: number of keys - number of queries.
  std::optional<TensorView<const Index, 1>> q_start = std::nullopt;
  std::optional<TensorView<const Index, 2>> valid_lens = std::nullopt;  ///< [batch, q_len]
  std::optional<TensorView<const bool, 4>> keep = std::nullopt;         ///< true = may attend
  std::optional<DocumentIds> documents = std::nullopt;                  ///< equal ids see each other
  std::optional<SequenceBounds> sequences = std::nullopt;               ///< of a ragged batch
  std::optional<DropoutBits> dropout = std::nullopt;                    ///< of the weights

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
