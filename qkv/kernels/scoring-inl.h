// Raw scores of a tile of keys for a panel of queries: dot product, cosine or additive.
//
// Dot and cosine are one matrix product; for the cosine, queries and keys are brought to length 1 first, in double, where no square of a
// float overflows.
//
// The additive score sum_n w_n tanh(a_n + b_n), a = w_q q and b = w_k k, needs a tanh for each query, key and hidden unit. From
//   tanh(a + b) = 1 - 2 / (e^2a e^2b + 1)
// follows that with e^2a and e^2b computed once per query and key, what remains for each triple is a multiplication, an addition and a
// share of a division: two fractions are added before dividing. Nothing of size q_len x kv_len x hidden_dim is stored.

#if defined(QKV_KERNELS_SCORING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_SCORING_INL_H_
#undef QKV_KERNELS_SCORING_INL_H_
#else
#define QKV_KERNELS_SCORING_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <limits>

#include "hwy/highway.h"
#include "qkv/kernels/math-inl.h"
#include "qkv/kernels/panel-inl.h"
#include "qkv/kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels {
namespace HWY_NAMESPACE {

/// Up to this |a| e^2a and its reciprocal are far inside the range of float, and products of two are 0 or inf at worst, which the formula
/// takes. Beyond, tanh(a + b) is computed as it is written.
constexpr float kTameHidden = 40.0f;

/// The hidden units of additive scoring are worked on in panels, too.
inline Index hidden_panels(Index hidden_dim) {
  return ceil_div(hidden_dim, kMaxPanelWidth);
}

/// 1/|x|, 0 for a zero vector, NaN where x holds NaN or Inf.
inline double inverse_norm(const float* HWY_RESTRICT x, Index dim) {
  double sum = 0;
  for (Index d = 0; d < dim; ++d) sum += static_cast<double>(x[d]) * static_cast<double>(x[d]);
  if (!std::isfinite(sum)) return std::numeric_limits<double>::quiet_NaN();
  return sum == 0 ? 0 : 1 / std::sqrt(sum);
}

/// e^(2x). 2 log2(e) x is formed in two parts, since its rounding alone would cost |x| / 2 ulp of the result.
HWY_INLINE VecF32 exp_twice(F32 d, VecF32 x) {
  constexpr float kHigh = 2.885390043f, kLow = 3.851925e-8f;  // kHigh + kLow = 2 log2(e)
  const auto high = hn::Mul(x, hn::Set(d, kHigh));
  const auto low = hn::MulAdd(x, hn::Set(d, kLow), hn::MulSub(x, hn::Set(d, kHigh), high));
  const auto power = exp2_or_zero(d, high);
  return hn::MulAdd(power, hn::Mul(low, hn::Set(d, static_cast<float>(kLn2))), power);
}

/// Whether each of the values is far from where e^(2x) overflows; NaN is not.
HWY_INLINE hn::Mask<F32> is_tame(F32 d, VecF32 x) {
  return hn::Le(hn::Abs(x), hn::Set(d, kTameHidden));
}

/// Queries of length score_factor(), whatever their length was.
inline void normalise_queries(const Head& head, Panel& panel) {
  const auto& args = head.args;
  for (Index i = 0; i < panel.num_queries; ++i) {
    const float* const row = head.query(panel.first_query + i);
    const double factor = score_factor(args) * inverse_norm(row, args.head_dim());
    for (Index c = 0; c < args.head_dim(); ++c) panel.qt[c * panel.width + i] = static_cast<float>(factor * row[c]);
  }
}

/// a = w_q q and e^(2a) for each lane.
inline HWY_NOINLINE void project_queries(const AdditiveScoring<float>& additive, Index head_dim, Panel& panel) {
  const F32 d;
  const Index hidden_dim = additive.w_v.shape(0), width = panel.width;
  with_vectors(width, [&]<int kVectors>() {
    multiply<kVectors, Left::kRows>(additive.w_q.data(), additive.w_q.stride(0), hidden_dim, panel.qt, head_dim,
                                    panel.hidden);
  });
  panel.is_tame = true;
  for (Index i = 0; i < width; i += kLanes) {
    auto all_tame = is_tame(d, hn::Zero(d));
    for (Index n = 0; n < hidden_dim; ++n) {
      const auto a = hn::Load(d, panel.hidden + n * width + i);
      all_tame = hn::And(all_tame, is_tame(d, a));
      hn::Store(exp_twice(d, a), d, panel.exp_hidden + n * width + i);
    }
    hn::Store(hn::IfThenZeroElse(all_tame, hn::Set(d, 1.0f)), d, panel.wildness + i);
    panel.is_tame &= hn::AllTrue(d, all_tame);
  }
}

/// Brings the panel's queries into lanes, in the form that the scoring wants.
inline void load_queries(const Head& head, Panel& panel) {
  const auto& args = head.args;
  const auto* additive = args.additive();
  pack_panel(head.query(panel.first_query), args.q.stride(2), panel.num_queries, args.head_dim(),
             additive ? 1 : score_factor(args), panel.qt, panel.width);
  if (std::holds_alternative<CosineScoring>(args.scoring)) normalise_queries(head, panel);
  if (additive) project_queries(*additive, args.head_dim(), panel);
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

/// b = w_k k and e^(2b) for each key of a tile.
inline HWY_NOINLINE void project_keys(const Head& head, const AdditiveScoring<float>& additive, KeyRange tile,
                                      KeyFeatures& keys) {
  const F32 d;
  const auto& args = head.args;
  const Index num_keys = tile.end - tile.begin;
  std::fill_n(keys.is_tame, num_keys, true);
  for (Index n = 0; n < hidden_panels(additive.w_v.shape(0)); ++n) {
    float* const hidden = keys.hidden + n * kKeyTile * kMaxPanelWidth;
    float* const exp_hidden = keys.exp_hidden + n * kKeyTile * kMaxPanelWidth;
    multiply<kMaxVectors, Left::kRows>(head.key(tile.begin), args.k.stride(2), num_keys,
                                       keys.w_k + n * args.k_head_dim() * kMaxPanelWidth, args.k_head_dim(), hidden);
    for (Index j = 0; j < num_keys; ++j) {
      for (Index i = j * kMaxPanelWidth; i < (j + 1) * kMaxPanelWidth; i += kLanes) {
        const auto b = hn::Load(d, hidden + i);
        keys.is_tame[j] = keys.is_tame[j] && hn::AllTrue(d, is_tame(d, b));
        hn::Store(exp_twice(d, b), d, exp_hidden + i);
      }
    }
  }
}

/// What a task does once for each tile of keys, whatever the number of its panels.
inline void load_keys(const Head& head, KeyRange tile, KeyFeatures& keys) {
  const Index head_dim = head.args.head_dim();
  keys.first_key = tile.begin;
  keys.documents = {};
  if (head.args.documents)
    for (Index j = tile.begin; j < tile.end; ++j) keys.documents.add(head.args.documents->k(head.b, j));
  if (std::holds_alternative<CosineScoring>(head.args.scoring)) {
    for (Index j = 0; j < tile.end - tile.begin; ++j) {
      const float* const key = head.key(tile.begin + j);
      const double factor = inverse_norm(key, head_dim);
      for (Index c = 0; c < head_dim; ++c) keys.unit_keys[j * head_dim + c] = static_cast<float>(factor * key[c]);
    }
  }
  if (const auto* additive = head.args.additive()) project_keys(head, *additive, tile, keys);
}

/// Hidden unit n of a key, out of the panels that project_keys() fills.
HWY_INLINE float hidden_of_key(const float* HWY_RESTRICT panels, Index n, Index key) {
  return panels[(n / kMaxPanelWidth * kKeyTile + key) * kMaxPanelWidth + n % kMaxPanelWidth];
}

/// One key against the panel, for each lane: sum_n w_n tanh(a_n + b_n) as it is written.
template <int kVectors>
HWY_INLINE void additive_row_direct(const AdditiveScoring<float>& additive, const Panel& panel, const KeyFeatures& keys,
                                    Index key, VecF32 (&score)[kVectors]) {
  const F32 d;
  for (auto& v : score) v = hn::Zero(d);
  for (Index n = 0; n < additive.w_v.shape(0); ++n) {
    const auto b = hn::Set(d, hidden_of_key(keys.hidden, n, key));
    for (int v = 0; v < kVectors; ++v) {
      const auto a = hn::Load(d, panel.hidden + (n * kVectors + v) * kLanes);
      score[v] = hn::MulAdd(hn::Set(d, additive.w_v(n)), tanh(d, hn::Add(a, b)), score[v]);
    }
  }
}

/// The same by the quick form, sum_n w_n - 2 sum_n w_n / (e^2a e^2b + 1). Denominators are cut off where the fraction no longer shows beside
/// the 1 it is subtracted from; a product of two then stays finite.
template <int kVectors>
HWY_INLINE void additive_row_quick(const AdditiveScoring<float>& additive, const Panel& panel, const KeyFeatures& keys,
                                   Index key, VecF32 (&score)[kVectors]) {
  const F32 d;
  const auto one = hn::Set(d, 1.0f), bound = hn::Set(d, 1e18f);
  const auto denominator = [&](Index n, int v) {
    const auto exp_a = hn::Load(d, panel.exp_hidden + (n * kVectors + v) * kLanes);
    return min_keep_nan(d, bound, hn::MulAdd(exp_a, hn::Set(d, hidden_of_key(keys.exp_hidden, n, key)), one));
  };
  const auto weight = [&](Index n) { return hn::Set(d, additive.w_v(n)); };
  VecF32 sum[kVectors];
  for (auto& v : sum) v = hn::Zero(d);
  float weight_sum = 0;
  const Index hidden_dim = additive.w_v.shape(0);
  Index n = 0;
  for (; n + 1 < hidden_dim; n += 2) {  // w/x + u/y = (w y + u x) / (x y)
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
  for (int v = 0; v < kVectors; ++v) score[v] = hn::NegMulAdd(hn::Set(d, 2.0f), sum[v], hn::Set(d, weight_sum));
}

/// Which form a score takes depends on its own query and key alone, so that nobody else's values can change its bits.
template <int kVectors>
HWY_INLINE void additive_row(const AdditiveScoring<float>& additive, const Panel& panel, const KeyFeatures& keys,
                             Index key, float factor, float* HWY_RESTRICT scores) {
  const F32 d;
  VecF32 score[kVectors], direct[kVectors];
  if (keys.is_tame[key])
    additive_row_quick(additive, panel, keys, key, score);
  else
    additive_row_direct(additive, panel, keys, key, score);
  if (keys.is_tame[key] && !panel.is_tame) {
    additive_row_direct(additive, panel, keys, key, direct);
    for (int v = 0; v < kVectors; ++v) {
      const auto is_quick = hn::Eq(hn::Load(d, panel.wildness + v * kLanes), hn::Zero(d));
      score[v] = hn::IfThenElse(is_quick, score[v], direct[v]);
    }
  }
  for (int v = 0; v < kVectors; ++v) hn::Store(hn::Mul(score[v], hn::Set(d, factor)), d, scores + v * kLanes);
}

/// scores[j][lane] = score_factor() * dot product or cosine of the tile's keys with the queries.
template <int kVectors>
HWY_INLINE void product_scores(const Head& head, const Panel& panel, KeyRange tile, const TileScratch& scratch) {
  const auto& args = head.args;
  const Index head_dim = args.head_dim();
  const bool is_cosine = std::holds_alternative<CosineScoring>(args.scoring);
  const KeyFeatures& keys = scratch.keys;
  const float* const rows =
      is_cosine ? keys.unit_keys + (tile.begin - keys.first_key) * head_dim : head.key(tile.begin);
  StoreSums<kVectors> finish{scratch.scores, nullptr, scratch.next};
  contract<kVectors, Left::kRows>(rows, is_cosine ? head_dim : args.k.stride(2), tile.end - tile.begin, panel.qt,
                                  head_dim, finish);
}

/// scores[j][lane] = score_factor() * score of the tile's keys. load_keys() was called for a tile that holds this one.
template <int kVectors>
HWY_INLINE void raw_scores(const Head& head, const Panel& panel, KeyRange tile, const TileScratch& scratch) {
  const auto* additive = head.args.additive();
  if (!additive) return product_scores<kVectors>(head, panel, tile, scratch);
  for (Index j = 0; j < tile.end - tile.begin; ++j)
    additive_row<kVectors>(*additive, panel, scratch.keys, tile.begin - scratch.keys.first_key + j,
                           score_factor(head.args), scratch.scores + j * kVectors * kLanes);
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#endif  // QKV_KERNELS_SCORING_INL_H_
