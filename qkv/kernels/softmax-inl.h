// The running softmax of a panel: lanes = queries, rows = keys.
//
// Scores are kept in log2 units, t = log2(e) * s, so that one exp2 per score is all the exponential there is.
// Invariant, between tiles, over the keys folded so far, for each lane (query) on its own:
//   row_max >= max_j t_j - kSlack     row_sum = sum_j 2^(t_j - row_max)     ot_d = sum_j 2^(t_j - row_max) * v_jd
// row_max may lag behind the true maximum by kSlack: a smaller rise needs no rescaling, and 2^8 does not overflow row_sum. Only lanes that
// rose by more are rescaled, so a query does not feel its neighbours. ot stays unnormalised: one division at the end replaces one per tile
// (arXiv:2307.08691, 3.1.1; online softmax: arXiv:1805.02867).

#if defined(QKV_KERNELS_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_SOFTMAX_INL_H_
#undef QKV_KERNELS_SOFTMAX_INL_H_
#else
#define QKV_KERNELS_SOFTMAX_INL_H_
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

/// How far (log2 units) row_max may lag; see the invariant.
template <class T>
inline constexpr T kSlack = 8;
/// A tile whose scores lie above row_max by no more than this is weighed before row_max rises, and its weights are brought down afterwards; by
/// more, row_max rises first. Differences to an old row_max are rounded the more the larger they are: at 100 results fell behind plain code.
template <class T>
inline constexpr T kReach = 16;

/// A weight below 2^kLowestWeight, row_max counting as 1, is an exact 0. It would not show in a row's sums; its products with values would be
/// denormal, and each would take the time of a hundred others: a call whose scores are spread wide took five to nine times as long.
template <class T>
inline constexpr T kLowestWeight = sizeof(T) == 4 ? -100 : -900;

/// 2^t of a weight, or of what sums of weights are multiplied by.
template <class D>
HWY_INLINE hn::Vec<D> exp2_weight(D d, hn::Vec<D> t) {
  return exp2_or_zero(d, t, kLowestWeight<hn::TFromD<D>>);
}

/// Finite biases and sinks count as +-this at most, so that none turns into -inf in log2 units: however low, a finite bias does not hide its key.
template <class T>
inline constexpr T kLargestBias = std::numeric_limits<T>::max() / T{1.5};  // log2(e) is below 1.5

template <class T>
inline void reset_softmax(Panel<T>& panel) {
  panel.has_values = panel.is_climbing = false;
  std::fill_n(panel.row_max, panel.width, kMinusInfinity<T>);
  std::fill_n(panel.row_sum, panel.width, T{0});
  std::fill_n(panel.moment, panel.width, T{0});
}

/// ot <- 0 where it is unset.
template <class T>
inline void set_values(Panel<T>& panel, Index v_head_dim) {
  if (!panel.has_values) std::fill_n(panel.ot, v_head_dim * panel.width, T{0});
  panel.has_values = true;
}

/// Moves row_max of the lanes i .. i+kLanes-1 up to new_max, and what was summed with it. Returns what that was multiplied by.
template <int kVectors, class T>
HWY_INLINE Vec<T> rescale(Panel<T>& panel, Index i, Vec<T> new_max, Index v_head_dim) {
  constexpr Index kWidth = kVectors * kLanes<T>;
  const Tag<T> d;
  const auto old_max = hn::Load(d, panel.row_max + i);
  const auto drop = hn::IfThenElseZero(hn::Ne(new_max, old_max), hn::Sub(old_max, new_max));
  const auto factor = exp2_weight(d, drop);  // exactly 1 where the lane did not rise, 0 where it had seen no key
  const auto sum = hn::Load(d, panel.row_sum + i);
  // Below kLowestWeight the factor is 0, whatever moment was, as long as it is finite.
  const auto change = max_keep_nan(d, hn::Set(d, kLowestWeight<T>), drop);
  const auto moment = hn::MulAdd(sum, change, hn::Load(d, panel.moment + i));
  hn::Store(new_max, d, panel.row_max + i);
  hn::Store(hn::Mul(factor, sum), d, panel.row_sum + i);
  hn::Store(hn::Mul(factor, moment), d, panel.moment + i);
  for (Index c = 0; c < (panel.has_values ? v_head_dim : 0); ++c)
    hn::Store(hn::Mul(factor, hn::Load(d, panel.ot + c * kWidth + i)), d, panel.ot + c * kWidth + i);
  return factor;
}

/// The largest score of a tile in each lane.
template <int kVectors, class T>
HWY_INLINE void find_tile_max(const T* HWY_RESTRICT scores, const Steps& steps, Vec<T> (&tile_max)[kVectors]) {
  const Tag<T> d;
  Vec<T> largest[kVectors];
  for (auto& v : largest) v = hn::Set(d, kMinusInfinity<T>);
  for_each_step<T, kVectors>(steps, [&]<int kFirst>(Index begin, Index end) QKV_INLINE_LAMBDA {
    for (Index j = begin; j < end; ++j) {
#pragma GCC unroll 4
      for (int v = kFirst; v < kVectors; ++v)
        largest[v] = hn::Max(largest[v], hn::Load(d, scores + (j * kVectors + v) * kLanes<T>));
    }
  });
  std::copy_n(largest, kVectors, tile_max);
}

/// The lanes of vector v whose largest score lies more than `margin` above row_max; all that have seen no key yet, if they see one now.
template <class T>
HWY_INLINE hn::Mask<Tag<T>> rises(const Panel<T>& panel, int v, Vec<T> tile_max, T margin) {
  const Tag<T> d;
  return hn::Gt(tile_max, hn::Add(hn::Load(d, panel.row_max + v * kLanes<T>), hn::Set(d, margin)));
}

/// Raises row_max to the tile's largest score in the lanes where that is more than kReach above, before the tile is weighed. Whether there are any.
template <int kVectors, class T>
HWY_INLINE bool raise_before(Panel<T>& panel, const Vec<T> (&tile_max)[kVectors], Index v_head_dim) {
  const Tag<T> d;
  bool any_rose = false;
  for (int v = 0; v < kVectors; ++v) {
    const auto rose = rises(panel, v, tile_max[v], kReach<T>);
    if (hn::AllFalse(d, rose)) continue;
    any_rose = true;
    const Index i = v * kLanes<T>;
    rescale<kVectors>(panel, i, hn::IfThenElse(rose, tile_max[v], hn::Load(d, panel.row_max + i)), v_head_dim);
  }
  return any_rose;
}

/// Raises row_max in the lanes where the tile's largest score lies more than kSlack above, after the tile was weighed, and brings its weights
/// down.
template <int kVectors, class T>
HWY_INLINE void raise_after(Panel<T>& panel, const Vec<T> (&tile_max)[kVectors], Index v_head_dim, Index num_keys,
                            T* HWY_RESTRICT weights) {
  const Tag<T> d;
  for (int v = 0; v < kVectors; ++v) {
    const auto rose = rises(panel, v, tile_max[v], kSlack<T>);
    if (hn::AllFalse(d, rose)) continue;
    const Index i = v * kLanes<T>;
    const auto factor =
        rescale<kVectors>(panel, i, hn::IfThenElse(rose, tile_max[v], hn::Load(d, panel.row_max + i)), v_head_dim);
    for (Index j = 0; j < num_keys; ++j) {
      T* const place = weights + j * kVectors * kLanes<T> + i;
      hn::Store(hn::Mul(factor, hn::Load(d, place)), d, place);
    }
  }
}

/// What is subtracted from t: row_max, or 0 while a lane has seen no key (-inf - -inf would be NaN).
template <class T>
HWY_INLINE Vec<T> safe_row_max(const Panel<T>& panel, Index i) {
  const Tag<T> d;
  const auto row_max = hn::Load(d, panel.row_max + i);
  return hn::IfThenZeroElse(hn::Eq(row_max, hn::Set(d, kMinusInfinity<T>)), row_max);
}

/// scores <- 2^(t - row_max), exactly 0 where excluded; adds to row_sum and, if asked, to moment. The vectors of a row
/// go side by side: one exponential is a chain of 45 cycles, and a scheduler sees only a few of them ahead.
template <int kVectors, bool kMoment, class T>
HWY_INLINE void exponentiate(Panel<T>& panel, const Steps& steps, T* HWY_RESTRICT scores) {
  const Tag<T> d;
  Vec<T> row_max[kVectors], sum[kVectors], moment[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    row_max[v] = safe_row_max(panel, v * kLanes<T>);
    sum[v] = moment[v] = hn::Zero(d);
  }
  for_each_step<T, kVectors>(steps, [&]<int kFirst>(Index begin, Index end) QKV_INLINE_LAMBDA {
    for (Index j = begin; j < end; ++j) {
#pragma GCC unroll 4
      for (int v = kFirst; v < kVectors; ++v) {
        T* const place = scores + (j * kVectors + v) * kLanes<T>;
        const auto t = hn::Sub(hn::Load(d, place), row_max[v]);
        const auto p = exp2_weight(d, t);
        sum[v] = hn::Add(sum[v], p);
        // -inf becomes finite here, so that an excluded key adds 0 * t = 0.
        if constexpr (kMoment) moment[v] = hn::MulAdd(p, max_keep_nan(d, hn::Set(d, kLowestWeight<T>), t), moment[v]);
        hn::Store(p, d, place);
      }
    }
  });
  for (int v = 0; v < kVectors; ++v) {
    const Index i = v * kLanes<T>;
    hn::Store(hn::Add(hn::Load(d, panel.row_sum + i), sum[v]), d, panel.row_sum + i);
    if constexpr (kMoment) hn::Store(hn::Add(hn::Load(d, panel.moment + i), moment[v]), d, panel.moment + i);
  }
}

/// Counts the sink, one more key without a value, in row_max and row_sum. `sink`: its logit.
template <int kVectors, class T>
HWY_NOINLINE void add_sink(T sink, Index v_head_dim, Panel<T>& panel) {
  const Tag<T> d;
  const auto t = hn::Set(d, std::clamp(sink, -kLargestBias<T>, kLargestBias<T>) * kLog2E<T>);
  for (Index i = 0; i < kVectors * kLanes<T>; i += kLanes<T>) {
    const auto row_max = hn::Load(d, panel.row_max + i);
    rescale<kVectors>(panel, i, hn::IfThenElse(hn::Lt(t, row_max), row_max, t), v_head_dim);
    const auto sum = hn::Load(d, panel.row_sum + i), new_max = hn::Load(d, panel.row_max + i);
    hn::Store(sum, d, panel.key_sum + i);
    hn::Store(hn::Add(sum, exp2_weight(d, hn::Sub(t, new_max))), d, panel.row_sum + i);
  }
}

/// Writes factor * ot / row_sum to out, rows[i * stride + c], 0 for queries that saw no key. Whether all of it is finite. The quotient is a
/// product with the reciprocal, put right by its remainder: dividing 16 floats takes 16 cycles, which at q_len 128 was 8 % of a call on AVX-512.
template <class T>
inline HWY_NOINLINE bool write_values(const Panel<T>& panel, Index v_head_dim, T factor, T* HWY_RESTRICT rows,
                                      Index stride) {
  const Tag<T> d;
  const auto factors = hn::Set(d, factor);
  auto not_finite = hn::Zero(d);
  for (Index i = 0; i < panel.num_queries; i += kLanes<T>) {
    const auto row_sum = hn::Load(d, panel.row_sum + i);
    const auto reciprocal = hn::IfThenZeroElse(hn::Eq(row_sum, hn::Zero(d)), hn::Div(hn::Set(d, T{1}), row_sum));
    unpack_lanes(panel.ot + i, panel.width, std::min(kLanes<T>, panel.num_queries - i), v_head_dim, rows + i * stride,
                 stride, [&](Index, Vec<T> v) {
                   const auto sum = hn::Mul(factors, v);
                   const auto quotient = hn::Mul(sum, reciprocal);
                   const auto out = hn::MulAdd(hn::NegMulAdd(quotient, row_sum, sum), reciprocal, quotient);
                   not_finite = hn::Or(not_finite, hn::Sub(out, out));  // 0, or NaN
                   return out;
                 });
  }
  return hn::AllTrue(d, hn::Eq(not_finite, hn::Zero(d)));
}

/// ot <- factor * ot.
template <class T>
inline HWY_NOINLINE void scale_values(Panel<T>& panel, Index v_head_dim, T factor) {
  const Tag<T> d;
  for (Index n = 0; n < v_head_dim * panel.width; n += kLanes<T>)
    hn::Store(hn::Mul(hn::Set(d, factor), hn::Load(d, panel.ot + n)), d, panel.ot + n);
}

/// Natural-log log-sum-exp of lane i.
template <class T>
inline T lane_lse(const Panel<T>& panel, Index i) {
  return static_cast<T>(kLn2 * panel.row_max[i] + std::log(static_cast<double>(panel.row_sum[i])));
}

/// Entropy of lane i in nats, sum_j p_j (ln(row_sum) - ln(2) (t_j - row_max)) over the keys; never below 0 by rounding.
template <class T>
inline T lane_entropy(const Panel<T>& panel, Index i) {
  if (panel.row_sum[i] == 0) return 0;
  const double sum = panel.row_sum[i];
  const double entropy = (panel.key_sum[i] * std::log(sum) - kLn2 * panel.moment[i]) / sum;
  return entropy < 0 ? 0 : static_cast<T>(entropy);
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#endif  // QKV_KERNELS_SOFTMAX_INL_H_
