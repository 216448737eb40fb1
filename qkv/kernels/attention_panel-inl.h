// A panel of queries meets a tile of keys: scores, weights, and what they add to the output. Everything here works in L1; what is kept from
// tile to tile is in softmax-inl.h.

#if defined(QKV_KERNELS_ATTENTION_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_ATTENTION_PANEL_INL_H_
#undef QKV_KERNELS_ATTENTION_PANEL_INL_H_
#else
#define QKV_KERNELS_ATTENTION_PANEL_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "hwy/highway.h"
#include "qkv/kernels/dropout-inl.h"
#include "qkv/kernels/math-inl.h"
#include "qkv/kernels/scoring-inl.h"
#include "qkv/kernels/softmax-inl.h"
#include "qkv/kernels/transpose-inl.h"
#include "qkv/kernels/visibility-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels {
namespace HWY_NAMESPACE {

/// t = softcap * log2(e) * tanh(s / softcap), where s = scale * q.k comes out of the tile.
template <class T>
inline HWY_NOINLINE void cap_scores(T softcap, Index count, T* HWY_RESTRICT scores) {
  const Tag<T> d;
  const auto cap = hn::Set(d, softcap), factor = hn::Set(d, softcap * kLog2E<T>);
  for (Index n = 0; n < count; n += kLanes<T>)
    hn::Store(hn::Mul(factor, tanh(d, hn::Div(hn::Load(d, scores + n), cap))), d, scores + n);
}

/// log2(e) * bias, cut to what is finite; NaN stays.
template <class D>
HWY_INLINE hn::Vec<D> scale_finite_bias(D d, hn::Vec<D> bias) {
  using T = hn::TFromD<D>;
  const auto limited =
      max_keep_nan(d, hn::Set(d, -kLargestBias<T>), min_keep_nan(d, hn::Set(d, kLargestBias<T>), bias));
  return hn::Mul(limited, hn::Set(d, kLog2E<T>));
}
/// The same, but inf stays, too.
template <class D>
HWY_INLINE hn::Vec<D> scale_bias(D d, hn::Vec<D> bias) {
  const auto is_infinite = hn::Eq(hn::Abs(bias), hn::Set(d, -kMinusInfinity<hn::TFromD<D>>));
  return hn::IfThenElse(is_infinite, bias, scale_finite_bias(d, bias));
}

/// Brings log2(e) * attn_bias for the panel's queries and these keys into lanes. Lanes past the last query repeat its bias: by 0 they would see keys
/// that it excludes, whose NaN would set off a second pass over the panel.
template <class T>
inline HWY_NOINLINE void gather_bias(const Head<T>& head, const Panel<T>& panel, KeyRange tile, T* HWY_RESTRICT bias) {
  const Index num_keys = tile.end - tile.begin, width = panel.width;
  const auto& view = *head.args.attn_bias;
  const T* const rows = head.bias(panel.first_query, tile.begin);
  const auto scale = [](auto d, auto v) { return scale_bias(d, v); };
  if (view.stride(3) == 1) {
    pack_panel(rows, view.stride(2), panel.num_queries, num_keys, bias, width, scale);
  } else {
    const hn::CappedTag<T, 1> d;
    for (Index j = 0; j < num_keys; ++j)
      for (Index i = 0; i < panel.num_queries; ++i)
        hn::Store(scale(d, hn::Set(d, rows[i * view.stride(2) + j * view.stride(3)])), d, bias + j * width + i);
  }
  for (Index j = 0; j < num_keys; ++j)
    std::fill(bias + j * width + panel.num_queries, bias + (j + 1) * width, bias[j * width + panel.num_queries - 1]);
}

/// t + bias; where the bias is -inf the score is replaced, whatever it was.
template <class V>
HWY_INLINE V add_bias(V bias, V t) {
  const hn::DFromV<V> d;
  const auto excluded = hn::Set(d, kMinusInfinity<hn::TFromV<V>>);
  return hn::IfThenElse(hn::Eq(bias, excluded), excluded, hn::Add(bias, t));
}
template <class T>
inline HWY_NOINLINE void add_bias(const T* HWY_RESTRICT bias, Index count, T* HWY_RESTRICT scores) {
  const Tag<T> d;
  for (Index n = 0; n < count; n += kLanes<T>)
    hn::Store(add_bias(hn::Load(d, bias + n), hn::Load(d, scores + n)), d, scores + n);
}

/// t -= log2(e) * slope * |position of the lane's query - key|. A product that overflows counts as the largest, and hides no key.
template <int kVectors, class T>
HWY_NOINLINE void add_alibi(T slope, const Panel<T>& panel, KeyRange tile, T* HWY_RESTRICT scores) {
  const Tag<T> d;
  HWY_ALIGN T position[kMaxPanelWidth<T>];  // relative to the tile
  for (Index i = 0; i < panel.width; ++i) position[i] = static_cast<T>(panel.position[i] - tile.begin);
  const auto factor = hn::Set(d, slope);
  for (Index j = 0; j < tile.end - tile.begin; ++j) {
    for (Index v = 0; v < kVectors; ++v) {
      T* const place = scores + (j * kVectors + v) * kLanes<T>;
      const auto distance = hn::Abs(hn::Sub(hn::Load(d, position + v * kLanes<T>), hn::Set(d, static_cast<T>(j))));
      hn::Store(hn::Sub(hn::Load(d, place), scale_finite_bias(d, hn::Mul(factor, distance))), d, place);
    }
  }
}

/// scores[j][lane] = t of the keys, -inf where excluded, as far as the steps go. `tile` is what look_at_tile() returned.
template <int kVectors, class T>
HWY_NOINLINE void score_tile(const Head<T>& head, const Panel<T>& panel, KeyRange tile, TileScratch<T>& scratch,
                             T* HWY_RESTRICT scores) {
  const auto& args = head.args;
  const Index num_keys = tile.end - tile.begin, count = num_keys * kVectors * kLanes<T>;
  raw_scores<kVectors>(head, panel, tile, scratch, scores);
  if (args.softcap) cap_scores(*args.softcap, count, scores);
  if (args.attn_bias) {
    gather_bias(head, panel, tile, scratch.bias);
    add_bias(scratch.bias, count, scores);
  }
  if (args.alibi_slopes) add_alibi<kVectors>((*args.alibi_slopes)(head.h), panel, tile, scores);
  if (scratch.visibility.is_full) return;
  if (scratch.visibility.by_range) return mask_by_range<kVectors>(scratch.visibility, scores);
  mask_scores<kVectors>(scratch.visibility, num_keys, scores);
}

/// An Epilogue of tiles-inl.h that turns scores into weights while they are in registers: what add_bias(), mask_by_range(),
/// find_tile_max() and exponentiate() do, to the same bits.
template <class T, int kVectors>
struct WeighSums {
  T* out;
  const T* partial = nullptr;
  Prefetch<T>* prefetch;
  const Visibility<T>* visibility;
  T factor;       ///< score_factor()
  const T* bias;  ///< log2(e) * attn_bias, [num_keys, width], or null
  Vec<T> row_max[kVectors], tile_max[kVectors], sum[kVectors];

  template <int kFirst, int kRows>
  HWY_INLINE void operator()(Index first, const Vec<T> (&products)[kRows][kVectors]) {
    const Tag<T> d;
    T* HWY_RESTRICT const weights = out + first * kVectors * kLanes<T>;
    Vec<T> t[kRows][kVectors], largest[kVectors], total[kVectors];
    for (int v = kFirst; v < kVectors; ++v) largest[v] = tile_max[v], total[v] = sum[v];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = kFirst; v < kVectors; ++v) t[r][v] = hn::Mul(hn::Set(d, factor), products[r][v]);
    }
    if (bias) {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int v = kFirst; v < kVectors; ++v)
          t[r][v] = add_bias(hn::Load(d, bias + ((first + r) * kVectors + v) * kLanes<T>), t[r][v]);
      }
    }
    if (!visibility->is_full && !visibility->all_see(kFirst, kVectors, {first, first + kRows})) {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int v = kFirst; v < kVectors; ++v) t[r][v] = mask_by_range(*visibility, v, first + r, t[r][v]);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = kFirst; v < kVectors; ++v) {
        largest[v] = hn::Max(largest[v], t[r][v]);
        const auto p = exp2_weight(d, hn::Sub(t[r][v], row_max[v]));
        total[v] = hn::Add(total[v], p);
        hn::Store(p, d, weights + (r * kVectors + v) * kLanes<T>);
      }
    }
    for (int v = kFirst; v < kVectors; ++v) tile_max[v] = largest[v], sum[v] = total[v];
  }
};

/// The weights of a tile in one pass, where nothing but attn_bias and ranges of keys comes between a score and its weight, all lanes have seen
/// keys and no score is out of reach; otherwise false, and no sum of the panel has changed. Where scores are spread wide one tile after another is out
/// of reach; then it is not even tried.
template <int kVectors, class T>
HWY_INLINE bool weigh_at_once(const Head<T>& head, Panel<T>& panel, KeyRange tile, TileScratch<T>& scratch) {
  const auto& args = head.args;
  if (args.additive() || args.softcap || args.alibi_slopes || panel.is_climbing) return false;
  if (!scratch.visibility.is_full && !scratch.visibility.by_range) return false;
  const Tag<T> d;
  WeighSums<T, kVectors> epilogue;
  epilogue.out = scratch.scores;
  epilogue.prefetch = &scratch.prefetch;
  epilogue.visibility = &scratch.visibility;
  epilogue.factor = score_factor(args);
  epilogue.bias = args.attn_bias ? scratch.bias : nullptr;
  for (int v = 0; v < kVectors; ++v) {
    epilogue.row_max[v] = hn::Load(d, panel.row_max + v * kLanes<T>);
    epilogue.tile_max[v] = hn::Set(d, kMinusInfinity<T>);
    epilogue.sum[v] = hn::Zero(d);
    if (!hn::AllTrue(d, hn::Gt(epilogue.row_max[v], hn::Set(d, kMinusInfinity<T>)))) return false;
  }
  if (args.attn_bias) gather_bias(head, panel, tile, scratch.bias);
  product_scores<kVectors>(head, panel, tile, scratch, epilogue);
  for (int v = 0; v < kVectors; ++v)
    panel.is_climbing |= !hn::AllFalse(d, rises(panel, v, epilogue.tile_max[v], kReach<T>));
  if (panel.is_climbing) return false;
  for (int v = 0; v < kVectors; ++v) {
    T* const row_sum = panel.row_sum + v * kLanes<T>;
    hn::Store(hn::Add(hn::Load(d, row_sum), epilogue.sum[v]), d, row_sum);
  }
  raise_after<kVectors>(panel, epilogue.tile_max, args.v_head_dim(), tile.end - tile.begin, scratch.scores);
  return true;
}

/// How a tile is folded.
struct Folding {
  bool want_entropy = false;
  bool guard_values = false;  ///< against NaN and Inf in V, see add_guarded_values()
};

/// The weights of a tile step by step.
template <int kVectors, class T>
HWY_INLINE void weigh_in_steps(const Head<T>& head, Panel<T>& panel, KeyRange tile, Folding folding,
                               TileScratch<T>& scratch) {
  const Index v_head_dim = head.args.v_head_dim();
  const Steps& steps = scratch.visibility.steps;
  Vec<T> tile_max[kVectors];
  score_tile<kVectors>(head, panel, tile, scratch, scratch.scores);
  find_tile_max(scratch.scores, steps, tile_max);
  panel.is_climbing &= raise_before<kVectors>(panel, tile_max, v_head_dim);
  if (folding.want_entropy)
    exponentiate<kVectors, true>(panel, steps, scratch.scores);
  else
    exponentiate<kVectors, false>(panel, steps, scratch.scores);
  raise_after<kVectors>(panel, tile_max, v_head_dim, tile.end - tile.begin, scratch.scores);
}

/// scores <- attn_weights of the tile's keys once row_max and row_sum are final: 2^(t - row_max) / row_sum, 0 where excluded.
template <int kVectors, class T>
HWY_NOINLINE void weigh_tile(const Head<T>& head, Panel<T>& panel, KeyRange tile, TileScratch<T>& scratch) {
  constexpr Index kWidth = kVectors * kLanes<T>;
  const Tag<T> d;
  const KeyRange seen = look_at_tile(head, panel, tile, scratch.keys.documents, scratch.visibility);
  std::fill_n(scratch.scores, (tile.end - tile.begin) * kWidth, T{0});
  if (seen.empty()) return;
  scratch.visibility.steps = Steps::all(seen.end - seen.begin);
  T* const scores = scratch.scores + (seen.begin - tile.begin) * kWidth;
  score_tile<kVectors>(head, panel, seen, scratch, scores);
  const auto excluded = hn::Set(d, kMinusInfinity<T>);
  for (Index i = 0; i < kWidth; i += kLanes<T>) {
    const auto row_max = safe_row_max(panel, i), row_sum = hn::Load(d, panel.row_sum + i);
    for (Index j = 0; j < seen.end - seen.begin; ++j) {
      T* const place = scores + j * kWidth + i;
      const auto t = hn::Load(d, place);
      const auto weight = hn::Div(exp2_weight(d, hn::Sub(t, row_max)), row_sum);
      hn::Store(hn::IfThenZeroElse(hn::Eq(t, excluded), weight), d, place);
    }
  }
}

/// Adds weights times values to ot where some of the values may be NaN or Inf: 0 * NaN of an excluded key must stay 0. Finite values take
/// the ordinary product; the others are added one by one where the weight is not 0.
template <int kVectors, class T>
HWY_NOINLINE void add_guarded_values(const Head<T>& head, Panel<T>& panel, KeyRange tile,
                                     const TileScratch<T>& scratch) {
  constexpr Index kWidth = kVectors * kLanes<T>;
  const Tag<T> d;
  const Index v_head_dim = head.args.v_head_dim(), num_keys = tile.end - tile.begin;
  set_values(panel, v_head_dim);
  for (Index j = 0; j < num_keys; ++j) {
    const T* value = head.value(tile.begin + j);
    for (Index c = 0; c < v_head_dim; ++c) {
      const bool is_finite = std::isfinite(value[c]);
      scratch.values[j * v_head_dim + c] = is_finite ? value[c] : 0;
      if (is_finite) continue;
      for (Index i = 0; i < kWidth; i += kLanes<T>) {
        const auto weight = hn::Load(d, scratch.scores + j * kWidth + i);
        const auto product = hn::IfThenZeroElse(hn::Eq(weight, hn::Zero(d)), hn::Mul(weight, hn::Set(d, value[c])));
        T* const sum = panel.ot + c * kWidth + i;
        hn::Store(hn::Add(hn::Load(d, sum), product), d, sum);
      }
    }
  }
  multiply_columns<kVectors>(scratch.values, v_head_dim, v_head_dim, scratch.scores, Steps::all(num_keys), panel.ot,
                             panel.ot);
}

static_assert(kKeyTile <= kMaxDepth, "a tile of keys is not cut");

/// Folds one tile of keys and values into the panel.
template <int kVectors, class T>
HWY_NOINLINE void fold_tile(const Head<T>& head, Panel<T>& panel, KeyRange whole_tile, Folding folding,
                            TileScratch<T>& scratch) {
  const KeyRange tile = look_at_tile(head, panel, whole_tile, scratch.keys.documents, scratch.visibility);
  if (tile.empty()) return;
  const Index num_keys = tile.end - tile.begin, v_head_dim = head.args.v_head_dim();
  Steps& steps = scratch.visibility.steps;
  if (folding.guard_values) steps = Steps::all(num_keys);
  bool is_weighed = false;
  if constexpr (kLanesAreMany<T>)
    is_weighed = !folding.want_entropy && weigh_at_once<kVectors>(head, panel, tile, scratch);
  if (!is_weighed) weigh_in_steps<kVectors>(head, panel, tile, folding, scratch);
  if (head.args.dropout) drop_weights<kVectors>(head, panel, tile, scratch.scores);
  if (folding.guard_values) return add_guarded_values<kVectors>(head, panel, tile, scratch);
  const T* const values = head.value(tile.begin);
  const Index stride = head.args.v.stride(2);
  multiply_columns<kVectors>(values, stride, v_head_dim, scratch.scores, steps, panel.has_values ? panel.ot : nullptr,
                             panel.ot, &scratch.prefetch);
  panel.has_values = true;
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#endif  // QKV_KERNELS_ATTENTION_PANEL_INL_H_
