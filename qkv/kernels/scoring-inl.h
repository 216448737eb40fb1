// Raw scores of a tile of keys for a panel of queries: dot product, cosine or additive.
//
// Dot and cosine are one matrix product; for the cosine 1/|q| goes into Q^T and 1/|k| multiplies the finished row of a
// key. The additive score sum_n w_n tanh(a_n + b_n), a = w_q q and b = w_k k, needs a tanh for each query, key and
// hidden unit. From
//   tanh(a + b) = 1 - 2 / (e^2a e^2b + 1)
// follows that with e^2a and e^2b computed once per query and key, what remains for each triple is a multiplication, an
// addition and a share of a division: two fractions are added before dividing. Nothing of size q_len x kv_len x
// hidden_dim is stored.

#if defined(QKV_KERNELS_SCORING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_SCORING_INL_H_
#undef QKV_KERNELS_SCORING_INL_H_
#else
#define QKV_KERNELS_SCORING_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "hwy/highway.h"
#include "qkv/kernels/math-inl.h"
#include "qkv/kernels/panel-inl.h"
#include "qkv/kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels {
namespace HWY_NAMESPACE {

/// Up to this |a| e^2a and its reciprocal are far inside the range of float, and products of two are 0 or inf at worst,
/// which the formula takes. Beyond, tanh(a + b) is computed as it is written.
constexpr float kTameHidden = 40.0f;

inline Index hidden_chunks(Index hidden_dim) {
  return ceil_div(hidden_dim, kMaxPanelWidth);
}

/// 1/|x|, 0 for a zero vector, NaN where x holds NaN or Inf. In double: no square of a float overflows there.
inline float inverse_norm(const float* HWY_RESTRICT x, Index dim) {
  double sum = 0;
  for (Index d = 0; d < dim; ++d) sum += static_cast<double>(x[d]) * static_cast<double>(x[d]);
  if (!std::isfinite(sum)) return std::numeric_limits<float>::quiet_NaN();
  return sum == 0 ? 0 : static_cast<float>(1 / std::sqrt(sum));
}

/// exp_hidden = e^(2 hidden) for count values; returns whether all were tame. 2 log2(e) x is formed in two parts, since
/// its rounding alone would cost |x| / 2 ulp of the result.
inline HWY_NOINLINE bool exponentiate_hidden(const float* HWY_RESTRICT hidden, Index count,
                                             float* HWY_RESTRICT exp_hidden) {
  constexpr float kHigh = 2.885390043f, kLow = 3.851925e-8f;  // kHigh + kLow = 2 log2(e)
  const F32 d;
  auto largest = hn::Zero(d);
  for (Index n = 0; n < count; n += kLanes) {
    const auto x = hn::Load(d, hidden + n);
    largest = hn::IfThenElse(hn::Le(hn::Abs(x), largest), largest, hn::Abs(x));  // NaN is taken, too
    const auto high = hn::Mul(x, hn::Set(d, kHigh));
    const auto low = hn::MulAdd(x, hn::Set(d, kLow), hn::MulSub(x, hn::Set(d, kHigh), high));
    const auto power = exp2_or_zero(d, high);
    hn::Store(hn::MulAdd(power, hn::Mul(low, hn::Set(d, static_cast<float>(kLn2))), power), d, exp_hidden + n);
  }
  return hn::AllTrue(d, hn::Le(largest, hn::Set(d, kTameHidden)));
}

/// Brings the panel's queries into lanes, in the form that the scoring wants.
inline void load_queries(const Head& head, Panel& panel) {
  const auto& args = head.args;
  const Index head_dim = args.head_dim(), width = panel.width;
  const float* const rows = head.query(panel.first_query);
  const auto* additive = args.additive();
  pack_panel(rows, args.q.stride(2), panel.num_queries, head_dim, additive ? 1 : score_factor(args), panel.qt, width);
  if (std::holds_alternative<CosineScoring>(args.scoring)) {
    for (Index i = 0; i < panel.num_queries; ++i) {
      const float factor = inverse_norm(rows + i * args.q.stride(2), head_dim);
      for (Index c = 0; c < head_dim; ++c) panel.qt[c * width + i] *= factor;
    }
  }
  if (additive) {
    const Index hidden_dim = additive->w_v.shape(0);
    const auto project = [&]<int kVectors>() {
      contract<kVectors, Left::kRows>(additive->w_q.data(), additive->w_q.stride(0), hidden_dim, panel.qt, head_dim,
                                      Sum::kStore, panel.hidden);
    };
    with_vectors(width, project);
    panel.is_tame = exponentiate_hidden(panel.hidden, hidden_dim * width, panel.exp_hidden);
  }
}

/// What a task does once, before it meets a key.
inline void load_key_weights(const AttentionArgs<float>& args, KeyFeatures& keys) {
  const auto* additive = args.additive();
  if (!additive) return;
  const Index hidden_dim = additive->w_v.shape(0), k_head_dim = args.k_head_dim(), stride = additive->w_k.stride(0);
  for (Index n = 0; n < hidden_dim; n += kMaxPanelWidth)
    pack_panel(additive->w_k.data() + n * stride, stride, std::min(kMaxPanelWidth, hidden_dim - n), k_head_dim, 1,
               keys.w_k + n * k_head_dim, kMaxPanelWidth);
}

/// What a task does once for each tile of keys, whatever the number of its panels.
inline HWY_NOINLINE void load_keys(const Head& head, KeyRange tile, KeyFeatures& keys) {
  const auto& args = head.args;
  const Index num_keys = tile.end - tile.begin;
  keys.first_key = tile.begin;
  if (std::holds_alternative<CosineScoring>(args.scoring))
    for (Index j = 0; j < num_keys; ++j)
      keys.inverse_norms[j] = inverse_norm(head.key(tile.begin + j), args.head_dim());
  const auto* additive = args.additive();
  if (!additive) return;
  keys.is_tame = true;
  for (Index chunk = 0; chunk < hidden_chunks(additive->w_v.shape(0)); ++chunk) {
    float* const hidden = keys.hidden + chunk * kKeyTile * kMaxPanelWidth;
    contract<kMaxVectors, Left::kRows>(head.key(tile.begin), args.k.stride(2), num_keys,
                                       keys.w_k + chunk * args.k_head_dim() * kMaxPanelWidth, args.k_head_dim(),
                                       Sum::kStore, hidden);
    keys.is_tame &=
        exponentiate_hidden(hidden, num_keys * kMaxPanelWidth, keys.exp_hidden + chunk * kKeyTile * kMaxPanelWidth);
  }
}

/// One key against the panel: sum_n w_n tanh(a_n + b_n) for each lane, by the quick form where all is tame.
template <int kVectors>
HWY_INLINE void additive_row(const AdditiveScoring<float>& additive, const Panel& panel, const KeyFeatures& keys,
                             Index key, float factor, float* HWY_RESTRICT scores) {
  constexpr Index kWidth = kVectors * kLanes;
  const F32 d;
  const Index hidden_dim = additive.w_v.shape(0);
  const bool is_tame = panel.is_tame && keys.is_tame;
  const float* const query_side = is_tame ? panel.exp_hidden : panel.hidden;
  const float* const key_side = is_tame ? keys.exp_hidden : keys.hidden;
  const auto of_key = [&](Index n) {
    return hn::Set(d, key_side[(n / kMaxPanelWidth * kKeyTile + key) * kMaxPanelWidth + n % kMaxPanelWidth]);
  };
  const auto weight = [&](Index n) { return hn::Set(d, additive.w_v(n)); };
  const auto one = hn::Set(d, 1.0f);

  VecF32 sum[kVectors];
  for (auto& v : sum) v = hn::Zero(d);
  if (!is_tame) {
    for (Index n = 0; n < hidden_dim; ++n)
      for (int v = 0; v < kVectors; ++v)
        sum[v] = hn::MulAdd(weight(n), tanh(d, hn::Add(hn::Load(d, query_side + n * kWidth + v * kLanes), of_key(n))),
                            sum[v]);
    for (int v = 0; v < kVectors; ++v) hn::Store(hn::Mul(sum[v], hn::Set(d, factor)), d, scores + v * kLanes);
    return;
  }
  // Denominators are cut off where the fraction no longer shows beside the 1 it is subtracted from; a product of two
  // then stays finite.
  const auto bound = hn::Set(d, 1e18f);
  const auto denominator = [&](Index n, int v) {
    return min_keep_nan(d, bound, hn::MulAdd(hn::Load(d, query_side + n * kWidth + v * kLanes), of_key(n), one));
  };
  float weight_sum = 0;
  Index n = 0;
  for (; n + 1 < hidden_dim; n += 2) {
    weight_sum += additive.w_v(n) + additive.w_v(n + 1);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const auto x = denominator(n, v), y = denominator(n + 1, v);
      sum[v] = hn::Add(sum[v], hn::Div(hn::MulAdd(weight(n), y, hn::Mul(weight(n + 1), x)), hn::Mul(x, y)));
    }
  }
  if (n < hidden_dim) {
    weight_sum += additive.w_v(n);
    for (int v = 0; v < kVectors; ++v) sum[v] = hn::Add(sum[v], hn::Div(weight(n), denominator(n, v)));
  }
  for (int v = 0; v < kVectors; ++v) {
    const auto score = hn::NegMulAdd(hn::Set(d, 2.0f), sum[v], hn::Set(d, weight_sum));
    hn::Store(hn::Mul(score, hn::Set(d, factor)), d, scores + v * kLanes);
  }
}

/// scores[j][lane] = score_factor() * score of the tile's keys. load_keys() was called for a tile that holds this one.
template <int kVectors>
HWY_INLINE void raw_scores(const Head& head, const Panel& panel, KeyRange tile, const TileScratch& scratch) {
  constexpr Index kWidth = kVectors * kLanes;
  const auto& args = head.args;
  const Index num_keys = tile.end - tile.begin, first = tile.begin - scratch.keys.first_key;
  if (const auto* additive = args.additive()) {
    for (Index j = 0; j < num_keys; ++j)
      additive_row<kVectors>(*additive, panel, scratch.keys, first + j, score_factor(args),
                             scratch.scores + j * kWidth);
    return;
  }
  contract<kVectors, Left::kRows>(head.key(tile.begin), args.k.stride(2), num_keys, panel.qt, args.head_dim(),
                                  Sum::kStore, scratch.scores);
  if (!std::holds_alternative<CosineScoring>(args.scoring)) return;
  const F32 d;
  for (Index j = 0; j < num_keys; ++j) {
    const auto factor = hn::Set(d, scratch.keys.inverse_norms[first + j]);
    for (Index i = 0; i < kWidth; i += kLanes) {
      float* place = scratch.scores + j * kWidth + i;
      hn::Store(hn::Mul(hn::Load(d, place), factor), d, place);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#endif  // QKV_KERNELS_SCORING_INL_H_
