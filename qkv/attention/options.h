#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "qkv/core/executor.h"
#include "qkv/core/tensor_view.h"
#include "qkv/kernels/attention_args.h"

namespace qkv {

using kernels::CosineScoring;
using kernels::DotScoring;
/// score = w_v . tanh(w_q q + w_k k), of weights that are borrowed.
/// @{
template <class T>
using BasicAdditiveScoring = kernels::AdditiveScoring<T>;
using AdditiveScoring = BasicAdditiveScoring<float>;
/// @}
/// How alike a query and a key are, before scale: DotScoring{} (the default), CosineScoring{} or AdditiveScoring{w_q,
/// w_k, w_v}.
/// @{
template <class T>
using BasicScoring = kernels::Scoring<T>;
using Scoring = BasicScoring<float>;
/// @}

/// Sliding window: a query at position p sees keys p-left .. p+right, itself included. Absent = unlimited on that side.
struct Window {
  std::optional<Index> left = std::nullopt;   ///< keys seen before the query's own position
  std::optional<Index> right = std::nullopt;  ///< keys seen after it
};

/// How many leading keys of each batch entry (or of each query) are real: key j is visible iff j < valid_lens.
/// Borrows; shape [batch] or [batch, q_len].
class ValidLens {
 public:
  /// One length for each batch entry.
  /// @{
  ValidLens(TensorView<const Index, 1> per_batch)  // NOLINT(google-explicit-constructor)
      : lengths_(per_batch.data(), {per_batch.shape(0), 1}, {per_batch.stride(0), 0}) {}
  ValidLens(const std::vector<Index>& per_batch)  // NOLINT(google-explicit-constructor)
      : ValidLens(TensorView<const Index, 1>(per_batch.data(), {static_cast<Index>(per_batch.size())})) {}
  /// @}
  /// One length for each query of each batch entry.
  ValidLens(TensorView<const Index, 2> per_query)  // NOLINT(google-explicit-constructor)
      : lengths_(per_query) {}

  ValidLens(std::vector<Index>&& per_batch) = delete;  ///< would dangle

  /// [batch, 1] or [batch, q_len].
  TensorView<const Index, 2> lengths() const { return lengths_; }

 private:
  TensorView<const Index, 2> lengths_;
};

/// Ids of packed documents: a query and a key see each other iff their ids are equal. Borrows.
struct Documents {
  /// Of the keys, [batch, kv_len]; one row may stand for all batch entries.
  TensorView<const Index, 2> k;
  /// [batch, q_len], or one row for all; absent: the queries are the keys, which takes q_len = kv_len.
  std::optional<TensorView<const Index, 2>> q = std::nullopt;
};

/// The set of restrictions. Each one only removes keys; a key is visible iff all of them let it through.
struct Mask {
  /// Key j is visible to query i iff j <= q_start + i.
  bool causal = false;
  /// Keys near the query only.
  std::optional<Window> window = std::nullopt;
  /// Position of query 0, for the whole call or per batch entry [batch] (per sequence of a ragged batch). Absent: kv_len - q_len, of each
  /// sequence its own (lower right); 0 is the upper-left alignment of PyTorch's is_causal. Only causal, window and alibi_slopes look at it.
  std::optional<std::variant<Index, TensorView<const Index, 1>>> q_start = std::nullopt;
  /// The leading keys only.
  std::optional<ValidLens> valid_lens = std::nullopt;
  /// true = may attend. Shape [batch, num_heads, q_len, kv_len], each axis possibly 1 (broadcast); any strides.
  std::optional<TensorView<const bool, 4>> keep = std::nullopt;
  /// Only what belongs to the same document.
  std::optional<Documents> documents = std::nullopt;
  /// A ragged batch, of batch = 1: sequence s owns queries cu_seqlens_q[s] .. cu_seqlens_q[s+1]-1 and the same of the keys, and sees only
  /// those; causal and window count inside the sequence. Both or neither, shape [num_sequences + 1], from 0 to q_len and kv_len.
  /// @{
  std::optional<TensorView<const Index, 1>> cu_seqlens_q = std::nullopt;
  std::optional<TensorView<const Index, 1>> cu_seqlens_k = std::nullopt;
  /// @}
};

/// Weights that are set to 0 at random after the softmax, and what makes up for them: the others are multiplied by 1 / (1 - p). No mask is
/// stored; which weights fall follows from seed, batch entry, head, query and key alone (kernels::DropoutBits).
struct Dropout {
  double p = 0;            ///< the probability, 0 to 1; rounded to a multiple of 2^-16
  std::uint64_t seed = 0;  ///< another seed, other weights
  Index batch_start =
      0;  ///< what batch entry 0 counts as, modulo 2^32: a batch in two halves drops what the whole would
};

/// What to return beside `out`. Nothing here changes a bit of `out`.
struct Observe {
  bool lse = false;           ///< log-sum-exp of each row of scores, [batch, num_heads, q_len], natural log
  bool entropy = false;       ///< entropy of each row of weights, [batch, num_heads, q_len], nats
  bool attn_weights = false;  ///< softmax rows, [batch, num_heads, q_len, kv_len]: the only quadratic one
};

/// Everything about a call that is not q, k and v, whose elements are of type T. Filled with designated initialisers; borrows what it points to:
/// `{.mask = {.causal = true, .window = Window{.left = 128}}, .dropout = Dropout{.p = 0.1}}`.
template <class T>
struct BasicAttentionOptions {
  /// How a query and a key are compared.
  BasicScoring<T> scoring = DotScoring{};
  /// Multiplier of the score; absent: 1/sqrt(head_dim) for DotScoring, else 1. Plain dot product: scale = 1.
  std::optional<double> scale = std::nullopt;
  /// scores = softcap * tanh(scores / softcap), after scale and before attn_bias; 1e-38 to 1e38.
  std::optional<double> softcap = std::nullopt;
  /// Added to the scaled, capped scores; -inf excludes the key. Shape as Mask::keep.
  std::optional<TensorView<const T, 4>> attn_bias = std::nullopt;
  /// ALiBi (arXiv:2108.12409): score -= alibi_slopes[h] * |p - j|, p = q_start + i the position of the query. Shape [num_heads].
  /// Distances beyond 2^24 are rounded, in calls on floats.
  std::optional<TensorView<const T, 1>> alibi_slopes = std::nullopt;
  /// Attention sinks (arXiv:2309.17453): one more key for each head with this logit and no value, so that weights may sum to less than 1.
  /// Neither scaled nor masked; -inf: none. Shape [num_heads].
  std::optional<TensorView<const T, 1>> sinks = std::nullopt;
  /// Which keys a query may see.
  Mask mask = {};
  /// Weights dropped at random, in training.
  std::optional<Dropout> dropout = std::nullopt;
  /// What to return beside the output.
  Observe observe = {};
  /// Who runs the tasks if there are several (plan()); null: default_executor().
  Executor* executor = nullptr;
  /// The bits of a row depend on nothing but its query, the keys it sees and their places: not on other rows, on the rest of the batch, or
  /// on how a prefill was cut (dropout apart, whose places count from the first query and key of the call). Every call is so today; true keeps
  /// it so.
  bool reproducible = false;
};

/// Of a call on floats.
using AttentionOptions = BasicAttentionOptions<float>;

}  // namespace qkv
