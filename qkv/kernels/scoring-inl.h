// Raw scores of a tile of keys for a panel of queries: dot product, cosine or additive.
//
// Dot and cosine are one matrix product; for the cosine, queries and keys are brought to length 1 first, in a wider type, where no square
// overflows.
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
#include <type_traits>

#include "hwy/highway.h"
#include "qkv/kernels/math-inl.h"
#include "qkv/kernels/panel-inl.h"
#include "qkv/kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels {
namespace HWY_NAMESPACE {

/// Up to this |a| e^2a and its reciprocal are far inside the range of T, and products of two are 0 or inf at worst, which the formula
/// takes. Beyond, tanh(a + b) is computed as it is written.
template <class T>
inline constexpr T kTameHidden = sizeof(T) == 4 ? 40 : 300;

/// Up to this |w_v| the quick form stays finite, too.
template <class T>
inline constexpr T kTameWeight = sizeof(T) == 4 ? 1e27 : 1e270;

/// What lengths are computed in.
template <class T>
using Wide = std::conditional_t<sizeof(T) == 4, double, long double>;

/// The hidden units of additive scoring are worked on in panels, too.
template <class T>
inline Index hidden_panels(Index hidden_dim) {
  return ceil_div(hidden_dim, kMaxPanelWidth<T>);
}

/// 1/|x|, 0 for a zero vector, NaN where x holds NaN or Inf.
template <class T>
inline Wide<T> inverse_norm(const T* HWY_RESTRICT x, Index dim) {
  Wide<T> sum = 0;
  for (Index d = 0; d < dim; ++d) sum += static_cast<Wide<T>>(x[d]) * static_cast<Wide<T>>(x[d]);
  if (!std::isfinite(sum)) return std::numeric_limits<Wide<T>>::quiet_NaN();
  return sum == 0 ? 0 : 1 / std::sqrt(sum);
}

/// e^(2x). 2 log2(e) x is formed in two parts, since its rounding alone would cost |x| / 2 ulp of the result.
template <class D>
HWY_INLINE hn::Vec<D> exp_twice(D d, hn::Vec<D> x) {
  using T = hn::TFromD<D>;
  // kHigh + kLow = 2 log2(e)
  constexpr auto kHigh = static_cast<T>(sizeof(T) == 4 ? 2.885390043 : 0x1.71547652b82fep+1);
  constexpr auto kLow = static_cast<T>(sizeof(T) == 4 ? 3.851925e-8 : 0x1.777d0ffda0d24p-55);
  const auto high = hn::Mul(x, hn::Set(d, kHigh));
  const auto low = hn::MulAdd(x, hn::Set(d, kLow), hn::MulSub(x, hn::Set(d, kHigh), high));
  const auto power = exp2_or_zero(d, high);
  return hn::MulAdd(power, hn::Mul(low, hn::Set(d, static_cast<T>(kLn2))), power);
}

/// Whether each of the values is far from where e^(2x) overflows; NaN is not.
template <class D>
HWY_INLINE hn::Mask<D> is_tame(D d, hn::Vec<D> x) {
  return hn::Le(hn::Abs(x), hn::Set(d, kTameHidden<hn::TFromD<D>>));
}

/// Queries of length 1, whatever their length was.
template <class T>
inline void normalise_queries(const Head<T>& head, Panel<T>& panel) {
  const auto& args = head.args;
  for (Index i = 0; i < panel.num_queries; ++i) {
    const T* const row = head.query(panel.first_query + i);
    const Wide<T> factor = inverse_norm(row, args.head_dim());
    for (Index c = 0; c < args.head_dim(); ++c) panel.qt[c * panel.width + i] = static_cast<T>(factor * row[c]);
  }
}

/// a = w_q q and e^(2a) for each lane.
template <class T>
inline HWY_NOINLINE void project_queries(const AdditiveScoring<T>& additive, Index head_dim, Panel<T>& panel) {
  const Tag<T> d;
  const Index hidden_dim = additive.w_v.shape(0), width = panel.width;
  with_vectors<T>(width, [&]<int kVectors>() {
    multiply_rows<kVectors>(additive.w_q.data(), additive.w_q.stride(0), hidden_dim, panel.qt, head_dim, panel.hidden);
  });
  panel.is_tame = true;
  for (Index i = 0; i < width; i += kLanes<T>) {
    auto all_tame = is_tame(d, hn::Zero(d));
    for (Index n = 0; n < hidden_dim; ++n) {
      const auto a = hn::Load(d, panel.hidden + n * width + i);
      all_tame = hn::And(all_tame, is_tame(d, a));
      hn::Store(exp_twice(d, a), d, panel.exp_hidden + n * width + i);
    }
    hn::Store(hn::IfThenZeroElse(all_tame, hn::Set(d, T{1})), d, panel.wildness + i);
    panel.is_tame &= hn::AllTrue(d, all_tame);
  }
}

/// Brings the panel's queries into lanes, in the form that the scoring wants.
template <class T>
inline void load_queries(const Head<T>& head, Panel<T>& panel) {
  const auto& args = head.args;
  const auto* additive = args.additive();
  pack_panel(head.query(panel.first_query), args.q.stride(2), panel.num_queries, args.head_dim(), panel.qt,
             panel.width);
  if (std::holds_alternative<CosineScoring>(args.scoring)) normalise_queries(head, panel);
  if (additive) project_queries(*additive, args.head_dim(), panel);
}

/// What a task does once, before it meets a key.
template <class T>
inline void load_key_weights(const AttentionArgs<T>& args, KeyFeatures<T>& keys) {
  const auto* additive = args.additive();
  if (!additive) return;
  const Index hidden_dim = additive->w_v.shape(0), k_head_dim = args.k_head_dim(), stride = additive->w_k.stride(0);
  for (Index n = 0; n < hidden_dim; n += kMaxPanelWidth<T>)
    pack_panel(additive->w_k.data() + n * stride, stride, std::min(kMaxPanelWidth<T>, hidden_dim - n), k_head_dim,
               keys.w_k + n * k_head_dim, kMaxPanelWidth<T>);
}

/// Whether no |w_v| is beyond kTameWeight; NaN is.
template <class T>
inline bool has_tame_weights(const AdditiveScoring<T>& additive) {
  bool all_tame = true;
  for (Index n = 0; n < additive.w_v.shape(0); ++n) all_tame &= std::abs(additive.w_v(n)) <= kTameWeight<T>;
  return all_tame;
}

/// b = w_k k and e^(2b) for each key of a tile.
template <class T>
inline HWY_NOINLINE void project_keys(const Head<T>& head, const AdditiveScoring<T>& additive, KeyRange tile,
                                      KeyFeatures<T>& keys) {
  const Tag<T> d;
  const auto& args = head.args;
  const Index num_keys = tile.end - tile.begin;
  std::fill_n(keys.is_tame, num_keys, has_tame_weights(additive));
  for (Index n = 0; n < hidden_panels<T>(additive.w_v.shape(0)); ++n) {
    T* const hidden = keys.hidden + n * kKeyTile * kMaxPanelWidth<T>;
    T* const exp_hidden = keys.exp_hidden + n * kKeyTile * kMaxPanelWidth<T>;
    multiply_rows<kMaxVectors>(head.key(tile.begin), args.k.stride(2), num_keys,
                               keys.w_k + n * args.k_head_dim() * kMaxPanelWidth<T>, args.k_head_dim(), hidden);
    for (Index j = 0; j < num_keys; ++j) {
      for (Index i = j * kMaxPanelWidth<T>; i < (j + 1) * kMaxPanelWidth<T>; i += kLanes<T>) {
        const auto b = hn::Load(d, hidden + i);
        keys.is_tame[j] = keys.is_tame[j] && hn::AllTrue(d, is_tame(d, b));
        hn::Store(exp_twice(d, b), d, exp_hidden + i);
      }
    }
  }
}

/// What a task does once for each tile of keys, whatever the number of its panels.
template <class T>
inline void load_keys(const Head<T>& head, KeyRange tile, KeyFeatures<T>& keys) {
  const Index head_dim = head.args.head_dim();
  keys.first_key = tile.begin;
  keys.documents = {};
  if (head.args.documents)
    for (Index j = tile.begin; j < tile.end; ++j) keys.documents.add(head.args.documents->k(head.b, j));
  if (std::holds_alternative<CosineScoring>(head.args.scoring)) {
    for (Index j = 0; j < tile.end - tile.begin; ++j) {
      const T* const key = head.key(tile.begin + j);
      const Wide<T> factor = inverse_norm(key, head_dim);
      for (Index c = 0; c < head_dim; ++c) keys.unit_keys[j * head_dim + c] = static_cast<T>(factor * key[c]);
    }
  }
  if (const auto* additive = head.args.additive()) project_keys(head, *additive, tile, keys);
}

/// Hidden unit n of a key, out of the panels that project_keys() fills.
template <class T>
HWY_INLINE T hidden_of_key(const T* HWY_RESTRICT panels, Index n, Index key) {
  return panels[(n / kMaxPanelWidth<T> * kKeyTile + key) * kMaxPanelWidth<T> + n % kMaxPanelWidth<T>];
}

/// One key against the panel, for each lane: sum_n w_n tanh(a_n + b_n) as it is written.
template <int kVectors, class T>
HWY_INLINE void additive_row_direct(const AdditiveScoring<T>& additive, const Panel<T>& panel,
                                    const KeyFeatures<T>& keys, Index key, Vec<T> (&score)[kVectors]) {
  const Tag<T> d;
  for (auto& v : score) v = hn::Zero(d);
  for (Index n = 0; n < additive.w_v.shape(0); ++n) {
    const auto b = hn::Set(d, hidden_of_key(keys.hidden, n, key));
    for (int v = 0; v < kVectors; ++v) {
      const auto a = hn::Load(d, panel.hidden + (n * kVectors + v) * kLanes<T>);
      score[v] = hn::MulAdd(hn::Set(d, additive.w_v(n)), tanh(d, hn::Add(a, b)), score[v]);
    }
  }
}

/// The same by the quick form, sum_n w_n - 2 sum_n w_n / (e^2a e^2b + 1). Denominators are cut off where the fraction no longer shows beside
/// the 1 it is subtracted from; a product of two, or of one and a weight, then stays finite.
template <int kVectors, class T>
HWY_INLINE void additive_row_quick(const AdditiveScoring<T>& additive, const Panel<T>& panel,
                                   const KeyFeatures<T>& keys, Index key, Vec<T> (&score)[kVectors]) {
  const Tag<T> d;
  const auto one = hn::Set(d, T{1}), bound = hn::Set(d, static_cast<T>(sizeof(T) == 4 ? 0x1p30 : 0x1p60));
  const auto denominator = [&](Index n, int v) {
    const auto exp_a = hn::Load(d, panel.exp_hidden + (n * kVectors + v) * kLanes<T>);
    return min_keep_nan(d, bound, hn::MulAdd(exp_a, hn::Set(d, hidden_of_key(keys.exp_hidden, n, key)), one));
  };
  const auto weight = [&](Index n) { return hn::Set(d, additive.w_v(n)); };
  Vec<T> sum[kVectors];
  for (auto& v : sum) v = hn::Zero(d);
  T weight_sum = 0;
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
  for (int v = 0; v < kVectors; ++v) score[v] = hn::NegMulAdd(hn::Set(d, T{2}), sum[v], hn::Set(d, weight_sum));
}

/// Which form a score takes depends on its own query and key alone, so that nobody else's values can change its bits.
template <int kVectors, class T>
HWY_INLINE void additive_row(const AdditiveScoring<T>& additive, const Panel<T>& panel, const KeyFeatures<T>& keys,
                             Index key, T factor, T* HWY_RESTRICT scores) {
  const Tag<T> d;
  Vec<T> score[kVectors], direct[kVectors];
  if (keys.is_tame[key])
    additive_row_quick(additive, panel, keys, key, score);
  else
    additive_row_direct(additive, panel, keys, key, score);
  if (keys.is_tame[key] && !panel.is_tame) {
    additive_row_direct(additive, panel, keys, key, direct);
    for (int v = 0; v < kVectors; ++v) {
      const auto is_quick = hn::Eq(hn::Load(d, panel.wildness + v * kLanes<T>), hn::Zero(d));
      score[v] = hn::IfThenElse(is_quick, score[v], direct[v]);
    }
  }
  for (int v = 0; v < kVectors; ++v) hn::Store(hn::Mul(score[v], hn::Set(d, factor)), d, scores + v * kLanes<T>);
}

/// Hands the dot product or cosine of the tile's keys with the queries, as far as the steps go, to `epilogue`.
template <int kVectors, class T, class Epilogue>
HWY_INLINE void product_scores(const Head<T>& head, const Panel<T>& panel, KeyRange tile, const TileScratch<T>& scratch,
                               Epilogue& epilogue) {
  const auto& args = head.args;
  const Index head_dim = args.head_dim();
  const bool is_cosine = std::holds_alternative<CosineScoring>(args.scoring);
  const KeyFeatures<T>& keys = scratch.keys;
  const T* const rows = is_cosine ? keys.unit_keys + (tile.begin - keys.first_key) * head_dim : head.key(tile.begin);
  const Index stride = is_cosine ? head_dim : args.k.stride(2);
  for_each_step<T, kVectors>(scratch.visibility.steps, [&]<int kFirst>(Index first, Index end) {
    multiply_rows<kVectors, kFirst>(rows, stride, first, end, panel.qt, head_dim, epilogue);
  });
}

/// scores[j][lane] = score_factor() * score of the tile's keys. load_keys() was called for a tile that holds this one.
template <int kVectors, class T>
HWY_INLINE void raw_scores(const Head<T>& head, const Panel<T>& panel, KeyRange tile, TileScratch<T>& scratch,
                           T* HWY_RESTRICT scores) {
  const auto* additive = head.args.additive();
  if (!additive) {
    StoreSums<T, kVectors> epilogue{scores, nullptr, &scratch.prefetch, score_factor(head.args)};
    return product_scores<kVectors>(head, panel, tile, scratch, epilogue);
  }
  for (Index j = 0; j < tile.end - tile.begin; ++j)
    additive_row<kVectors>(*additive, panel, scratch.keys, tile.begin - scratch.keys.first_key + j,
                           score_factor(head.args), scores + j * kVectors * kLanes<T>);
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#endif  // QKV_KERNELS_SCORING_INL_H_
