#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "qkv/core/random.h"
#include "qkv/core/tensor.h"
#include "qkv/kernels/attention_args.h"

// The oracle: attention in plain loops straight from the formula, one query at a time, every sum in `Accumulator`.
// Accumulator = double is the truth that every kernel for floats is tested against, long double that for doubles; Accumulator = float or double with the keys visited in
// reverse shows what rounding honest plain code suffers. Written to be checked by eye, not to be fast.

namespace qkv::kernels {

enum class KeyOrder { kForward, kReverse };

template <class Accumulator>
struct ReferenceResult {
  Tensor<Accumulator, 4> out;
  Tensor<Accumulator, 3> lse, entropy;
  Tensor<Accumulator, 4> attn_weights;
  /// Largest reference_magnitude() of a row among the keys whose weight is not negligible: the s of the accept rule
  /// (tests/support/tolerance.h).
  Tensor<Accumulator, 3> score_magnitude;
};

/// A sequence of a ragged batch, or all of a batch entry: its keys, its queries, its number.
struct ReferenceSequence {
  Index number, first_query, last_query, first_key, last_key;  ///< "last" is one past it
};

template <class T>
ReferenceSequence reference_sequence(const AttentionArgs<T>& args, Index b, Index i) {
  if (!args.sequences) return {b, 0, args.q_len(), 0, args.kv_len()};
  const auto& [q, k] = *args.sequences;
  Index s = 0;
  while (i >= q(s + 1)) ++s;
  return {s, q(s), q(s + 1), k(s), k(s + 1)};
}

/// The position of query i among the keys.
template <class T>
Index reference_position(const AttentionArgs<T>& args, Index b, Index i) {
  const ReferenceSequence sequence = reference_sequence(args, b, i);
  const Index lower_right = (sequence.last_key - sequence.first_key) - (sequence.last_query - sequence.first_query);
  const Index q_start = args.q_start ? (*args.q_start)(sequence.number) : lower_right;
  return sequence.first_key + q_start + (i - sequence.first_query);
}

/// Whether query i of batch entry b and head h may attend to key j, by the masks alone (attn_bias = -inf comes on top).
template <class T>
bool reference_visible(const AttentionArgs<T>& args, Index b, Index h, Index i, Index j) {
  const ReferenceSequence sequence = reference_sequence(args, b, i);
  const Index position = reference_position(args, b, i);
  if (j < sequence.first_key || j >= sequence.last_key) return false;
  if (args.causal && j > position) return false;
  if (args.window_left && j < position - *args.window_left) return false;
  if (args.window_right && j > position + *args.window_right) return false;
  if (args.valid_lens && j >= (*args.valid_lens)(b, i)) return false;
  if (args.documents && args.documents->q(b, i) != args.documents->k(b, j)) return false;
  return !args.keep || (*args.keep)(b, h, i, j);
}

/// What dropout multiplies a weight by: 0 or 1 / (1 - p).
template <class Accumulator, class T>
Accumulator reference_dropout(const AttentionArgs<T>& args, Index b, Index h, Index i, Index j) {
  if (!args.dropout) return 1;
  const auto& [threshold, seed, batch_start] = *args.dropout;
  const auto word = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto words =
      philox4x32<7>({word(static_cast<std::uint64_t>(i)), word(static_cast<std::uint64_t>(j / 8)),
                     word(static_cast<std::uint64_t>(h)), word(batch_start + static_cast<std::uint64_t>(b))},
                    {word(seed), word(seed >> 32)});
  const std::uint32_t bits = words[static_cast<std::size_t>(j % 8 / 2)] >> (j % 2 * 16) & 0xFFFF;
  return bits < threshold ? 0 : Accumulator(65536) / Accumulator(65536 - threshold);
}

/// q.k, the cosine of the two, or the additive score of one query and one key.
template <class Accumulator, class T>
Accumulator reference_likeness(const AttentionArgs<T>& args, Index b, Index h, Index i, Index j) {
  const auto q = [&](Index d) { return Accumulator(args.q(b, h, i, d)); };
  const auto k = [&](Index d) { return Accumulator(args.k(b, h / args.group_size(), j, d)); };
  const auto dot = [](Index dim, const auto& x, const auto& y) {
    Accumulator sum = 0;
    for (Index d = 0; d < dim; ++d) sum += x(d) * y(d);
    return sum;
  };
  if (const auto* additive = args.additive()) {
    Accumulator sum = 0;
    for (Index n = 0; n < additive->w_v.shape(0); ++n) {
      const auto w_q = [&](Index d) { return Accumulator(additive->w_q(n, d)); };
      const auto w_k = [&](Index d) { return Accumulator(additive->w_k(n, d)); };
      sum += Accumulator(additive->w_v(n)) * std::tanh(dot(args.head_dim(), w_q, q) + dot(args.k_head_dim(), w_k, k));
    }
    return sum;
  }
  const Accumulator product = dot(args.head_dim(), q, k);
  if (std::holds_alternative<DotScoring>(args.scoring)) return product;
  const Accumulator norms = std::sqrt(dot(args.head_dim(), q, q)) * std::sqrt(dot(args.head_dim(), k, k));
  return norms == 0 ? 0 : product / norms;
}

/// The score of one visible key: scale, then cap, then biases.
template <class Accumulator, class T>
Accumulator reference_score(const AttentionArgs<T>& args, Index b, Index h, Index i, Index j) {
  Accumulator s = Accumulator(args.scale) * reference_likeness<Accumulator>(args, b, h, i, j);
  if (args.softcap) s = Accumulator(*args.softcap) * std::tanh(s / Accumulator(*args.softcap));
  if (args.attn_bias) s += Accumulator((*args.attn_bias)(b, h, i, j));
  if (args.alibi_slopes)
    s -= Accumulator((*args.alibi_slopes)(h)) * Accumulator(std::abs(reference_position(args, b, i) - j));
  return s;
}

/// What a score of this size may have lost to rounding, in units of eps: |score| itself, or for an additive score the
/// largest it could be, scale * sum |w_v|, as every tanh has an absolute error of some eps whatever the sum.
template <class Accumulator, class T>
Accumulator reference_magnitude(const AttentionArgs<T>& args, Accumulator score) {
  const auto* additive = args.additive();
  if (!additive) return std::abs(score);
  Accumulator sum = 0;
  for (Index n = 0; n < additive->w_v.shape(0); ++n) sum += std::abs(Accumulator(additive->w_v(n)));
  return std::max(std::abs(Accumulator(args.scale)) * sum, std::abs(score));
}

/// Fills row (b, h, i) of `result`.
template <class Accumulator, class T>
void reference_row(const AttentionArgs<T>& args, Index b, Index h, Index i, KeyOrder order,
                   ReferenceResult<Accumulator>& result) {
  constexpr Accumulator kMinusInfinity = -std::numeric_limits<Accumulator>::infinity();
  std::vector<Index> keys;
  std::vector<Accumulator> scores;
  for (Index j = 0; j < args.kv_len(); ++j) {
    if (!reference_visible(args, b, h, i, j)) continue;
    if (args.attn_bias && (*args.attn_bias)(b, h, i, j) == -std::numeric_limits<T>::infinity()) continue;
    keys.push_back(j);
    scores.push_back(reference_score<Accumulator>(args, b, h, i, j));
  }
  if (order == KeyOrder::kReverse) {
    std::reverse(keys.begin(), keys.end());
    std::reverse(scores.begin(), scores.end());
  }
  // What a row without a visible key keeps; everything else is already 0.
  const Accumulator sink = args.sinks ? Accumulator((*args.sinks)(h)) : kMinusInfinity;
  result.lse(b, h, i) = sink;
  if (keys.empty()) return;

  Accumulator row_max = sink, row_sum = 0;
  for (Accumulator s : scores) row_max = std::isnan(s) || s > row_max ? s : row_max;
  for (Accumulator s : scores) row_sum += std::exp(s - row_max);
  if (args.sinks) row_sum += std::exp(sink - row_max);
  result.lse(b, h, i) = row_max + std::log(row_sum);

  Accumulator entropy = 0, magnitude = 0;
  for (std::size_t n = 0; n < keys.size(); ++n) {
    const Index j = keys[n];
    const Accumulator weight = std::exp(scores[n] - row_max) / row_sum;
    result.attn_weights(b, h, i, j) = weight;
    if (weight != 0) entropy -= weight * (scores[n] - row_max - std::log(row_sum));
    if (weight > std::numeric_limits<T>::epsilon() / T(keys.size()))
      magnitude = std::max(magnitude, reference_magnitude(args, scores[n]));
    const auto factor = reference_dropout<Accumulator>(args, b, h, i, j);
    if (factor == 0) continue;  // dropped: exactly nothing, whatever the value
    const Accumulator kept = weight * factor;
    for (Index d = 0; d < args.v_head_dim(); ++d)
      result.out(b, h, i, d) += kept * Accumulator(args.v(b, h / args.group_size(), j, d));
  }
  result.entropy(b, h, i) = entropy;
  result.score_magnitude(b, h, i) = magnitude;
}

/// Attention by the contract, every observable included.
template <class Accumulator, class T>
ReferenceResult<Accumulator> attention_reference(const AttentionArgs<T>& args, KeyOrder order = KeyOrder::kForward) {
  const Shape<3> rows{args.batch(), args.num_heads(), args.q_len()};
  ReferenceResult<Accumulator> result{
      .out = {{rows[0], rows[1], rows[2], args.v_head_dim()}, 0},
      .lse = {rows, 0},
      .entropy = {rows, 0},
      .attn_weights = {{rows[0], rows[1], rows[2], args.kv_len()}, 0},
      .score_magnitude = {rows, 0},
  };
  for (Index b = 0; b < rows[0]; ++b)
    for (Index h = 0; h < rows[1]; ++h)
      for (Index i = 0; i < rows[2]; ++i) reference_row(args, b, h, i, order, result);
  return result;
}

}  // namespace qkv::kernels
