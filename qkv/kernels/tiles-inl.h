// The register tile: the one inner loop that attention and linear layers share.
//
//   out[r][i] = sum_t left(r, t) * panel[t][i]
//
// Lanes = i (queries, tokens or outputs), one broadcast scalar of `left` at a time. `left` is read in its natural row-major layout:
//   Left::kRows      left(r, t) = left[r * stride + t]   scores: rows = keys, t over head_dim; linear layers: rows = outputs or tokens
//   Left::kColumns   left(r, t) = left[t * stride + r]   out^T = V^T P^T: rows = columns of V, t over keys
// so neither K nor V is ever packed. Source: the query-lane layout of this project, see
// docs/kernels.md.

#if defined(QKV_KERNELS_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_TILES_INL_H_
#undef QKV_KERNELS_TILES_INL_H_
#else
#define QKV_KERNELS_TILES_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <type_traits>

#include "hwy/highway.h"
#include "qkv/core/index.h"
#include "qkv/kernels/lanes-inl.h"
#include "qkv/kernels/prefetch.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels {
namespace HWY_NAMESPACE {

/// A panel is at most this many vectors wide: with 3 vectors and kTileRows rows the tile just fills the registers.
inline constexpr int kMaxVectors = 3;
template <class T>
inline constexpr Index kMaxPanelWidth = kLanes<T>* kMaxVectors;

/// Rows of the main tile for a panel of kVectors vectors. 12 accumulators + 3 panel vectors + 1 broadcast = the 16
/// registers of SSE4 and AVX2; 24 + 3 + 1 of the 32 of AVX-512 and NEON. Narrower panels take more rows, so that enough
/// independent chains remain to hide the latency of the FMA (4 cycles x 2 a cycle = 8 chains). 12 x 2 would fit into 32 registers, too, but
/// leaves a rest of most dimensions: out of L1 8 x 2 reached 96, 96 and 95 % of the FMA rate at head_dim 32, 64 and 128, 12 x 2 87, 91 and 92 %.
constexpr int tile_rows(Index num_vectors) {
  constexpr int kRows[2][3] = {{12, 6, 4}, {16, 8, 8}};
  return kRows[kHas32Registers][num_vectors - 1];
}

/// Rows of a tile for the last one or two vectors of a wider panel, for which on the diagonal of a causal mask there are as many rows as a
/// vector has lanes, or a multiple of that.
template <class T, int kVectors>
constexpr int step_rows() {
  return static_cast<int>(std::clamp<Index>(kLanes<T>, 4, kVectors == 1 ? 16 : kHas32Registers ? 8 : 4));
}

/// Calls step<kVectors>() for a panel of `width` lanes.
template <class T, class Step>
HWY_INLINE void with_vectors(Index width, const Step& step) {
  switch (width / kLanes<T>) {
    case 3:
      return step.template operator()<3>();
    case 2:
      return step.template operator()<2>();
    default:
      return step.template operator()<1>();
  }
}

/// How many panels hold so many queries or tokens.
template <class T>
inline Index count_panels(Index len) {
  return ceil_div(len, kMaxPanelWidth<T>);
}

/// The queries or tokens of a panel.
struct PanelCut {
  Index first, count;
};

/// Those of panel p. All panels are three vectors wide, except that the last ones cover what is left: a remainder of more than three vectors but
/// at most four is better cut 2 + 2 than 3 + 1, as narrow tiles are bound by loads.
template <class T>
inline PanelCut cut_panel(Index len, Index p) {
  const Index num_panels = count_panels<T>(len), first = p * kMaxPanelWidth<T>, left = len - first;
  constexpr Index kTwoVectors = 2 * kLanes<T>;
  if (p == num_panels - 2 && left <= 2 * kTwoVectors) return {first, kTwoVectors};
  if (p == num_panels - 1 && p > 0 && left + kMaxPanelWidth<T> <= 2 * kTwoVectors) {
    const Index shifted = first - kMaxPanelWidth<T> + kTwoVectors;
    return {shifted, len - shifted};
  }
  return {first, std::min(left, kMaxPanelWidth<T>)};
}

enum class Left { kRows, kColumns };

/// How far each vector of a panel has to go along some keys: all vectors up to end[0], from there up to end[1] all but the first, and so on;
/// under a causal mask the first queries are done first. The ends do not decrease.
struct Steps {
  Index end[kMaxVectors];

  /// All vectors go all the way.
  static constexpr Steps all(Index end) { return {{end, end, end}}; }
};

/// Calls step<kFirst>(begin, end) for each range in which just the vectors kFirst .. kVectors-1 are left.
template <class T, int kVectors, int kFirst = 0, class Step>
HWY_INLINE void for_each_step(const Steps& steps, const Step& step, Index begin = 0) {
  if (begin < steps.end[kFirst]) step.template operator()<kFirst>(begin, steps.end[kFirst]);
  if constexpr (kFirst + 1 < kVectors && kLanesAreMany<T>)
    for_each_step<T, kVectors, kFirst + 1>(steps, step, steps.end[kFirst]);
}

/// What becomes of the sums of a tile: here they are stored. An epilogue is called with the accumulators still in registers, for rows
/// first .. first+kRows-1 and the vectors from kFirst on; `partial`, where it is not null, holds sums [num_rows, width] that are added first,
/// so that partial = out adds to what is there, and `prefetch`, where it is not null, is what to fetch meanwhile.
template <class T, int kVectors>
struct StoreSums {
  T* out;
  const T* partial = nullptr;
  Prefetch<T>* prefetch = nullptr;
  T factor = 1;

  template <int kFirst, int kRows>
  HWY_INLINE void operator()(Index first, Vec<T> (&sums)[kRows][kVectors]) const {
    if (factor != 1) {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int v = kFirst; v < kVectors; ++v) sums[r][v] = hn::Mul(hn::Set(Tag<T>(), factor), sums[r][v]);
      }
    }
    T* HWY_RESTRICT const rows = out + first * kVectors * kLanes<T>;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = kFirst; v < kVectors; ++v) hn::Store(sums[r][v], Tag<T>(), rows + (r * kVectors + v) * kLanes<T>);
    }
  }
};

/// How deep a tile goes from one turn of its prefetch to the next, if it has one: for about the time that a line takes to arrive. Of 4 to 32 16 gave most;
/// a turn for each tile, whose lines come in one burst, up to 20 % less (32 x 12 heads of 64 tokens on AVX-512).
inline constexpr Index kDepthPerTurn = 16;

/// Turns in a product of so many rows and this depth, for a panel of num_vectors; where it goes in steps a few less.
constexpr Index count_turns(Index num_vectors, Index rows, Index depth) {
  return ceil_div(rows, tile_rows(num_vectors)) * ceil_div(depth, kDepthPerTurn);
}

/// How much of a tile's loop is written out: 4 hides its counter. On NEON 1: of 4, clang lifts so many loads that the sums leave the registers.
inline constexpr int kUnrolledDepth = HWY_ARCH_ARM ? 1 : 4;

/// Adds the products of t = begin .. end-1 to the sums of the vectors from kFirst on.
template <int kFirst, Left kLeft, class T, int kRows, int kVectors>
HWY_INLINE void accumulate(const T* HWY_RESTRICT left, Index stride, const T* HWY_RESTRICT panel, Index begin,
                           Index end, Vec<T> (&sums)[kRows][kVectors]) {
  constexpr Index kWidth = kVectors * kLanes<T>;
  const Tag<T> d;
#pragma GCC unroll kUnrolledDepth
  for (Index t = begin; t < end; ++t) {
    Vec<T> lanes[kVectors];
#pragma GCC unroll 4
    for (int n = kFirst; n < kVectors; ++n) lanes[n] = hn::Load(d, panel + t * kWidth + n * kLanes<T>);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const auto scalar = hn::Set(d, kLeft == Left::kRows ? left[r * stride + t] : left[t * stride + r]);
#pragma GCC unroll 4
      for (int n = kFirst; n < kVectors; ++n) sums[r][n] = hn::MulAdd(scalar, lanes[n], sums[r][n]);
    }
  }
}

/// Products of keys and queries are as deep as head_dim; those of values and weights go in steps along the keys.
template <Left kLeft>
using Depth = std::conditional_t<kLeft == Left::kColumns, Steps, Index>;

/// One tile.
template <int kRows, int kFirst, int kVectors, Left kLeft, class T, class Epilogue>
HWY_INLINE void tile(const T* HWY_RESTRICT left, Index stride, const T* HWY_RESTRICT panel, Depth<kLeft> depth,
                     Index first, Epilogue& epilogue) {
  static_assert(kFirst == 0 || kLeft == Left::kRows, "steps begin with the first vector");
  constexpr Index kWidth = kVectors * kLanes<T>;
  const Tag<T> d;
  Vec<T> sums[kRows][kVectors];
  for (auto& row : sums)
    for (auto& v : row) v = hn::Zero(d);
  const bool fetches = epilogue.prefetch && !epilogue.prefetch->is_done();
  const auto add_products = [&]<int kLeading>(Index begin, Index end) QKV_INLINE_LAMBDA {
    while (begin < end) {
      const Index turn_end = fetches ? std::min(begin + kDepthPerTurn, end) : end;
      accumulate<kLeading, kLeft>(left, stride, panel, begin, turn_end, sums);
      if (fetches) epilogue.prefetch->take_turn();
      begin = turn_end;
    }
  };
  if constexpr (kLeft == Left::kColumns)
    for_each_step<T, kVectors>(depth, add_products);
  else
    add_products.template operator()<kFirst>(0, depth);
  // Sums of a tile start from zero and are added to what was there at the end: two-level summation, whose error grows
  // with the tile's depth plus the number of tiles, not with their product.
  if (epilogue.partial) {
    const T* const partial = epilogue.partial + first * kWidth;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int n = kFirst; n < kVectors; ++n)
        sums[r][n] = hn::Add(hn::Load(d, partial + r * kWidth + n * kLanes<T>), sums[r][n]);
    }
  }
  epilogue.template operator()<kFirst>(first, sums);
}

/// Rows first .. num_rows-1 of `left`: full tiles, then what is left over in tiles of 8, 4, 2 and 1 rows.
template <int kRows, int kFirst, int kVectors, Left kLeft, class T, class Epilogue>
#if HWY_ARCH_ARM && HWY_COMPILER_GCC_ACTUAL
// Before it gives out registers GCC reorders instructions, on Arm though not on x86, and lifts loads as clang does: 8 x 3 tiles spilled.
[[gnu::optimize("no-schedule-insns")]]
#endif
HWY_NOINLINE void
contract_rows(const T* HWY_RESTRICT left, Index stride, Index first, Index num_rows, const T* HWY_RESTRICT panel,
              Depth<kLeft> depth, Epilogue& epilogue) {
  const Index row_step = kLeft == Left::kRows ? stride : 1;
  Index r = first;
  for (; r + kRows <= num_rows; r += kRows)
    tile<kRows, kFirst, kVectors, kLeft>(left + r * row_step, stride, panel, depth, r, epilogue);
  if constexpr (kRows > 1) {
    if (r < num_rows)
      contract_rows<std::bit_floor(kRows - 1u), kFirst, kVectors, kLeft>(left, stride, r, num_rows, panel, depth,
                                                                         epilogue);
  }
}

/// Products deeper than this are cut: 12 KiB of panel on AVX2.
inline constexpr Index kMaxDepth = 128;

/// Rows first .. end-1 of left * panel[depth][width], [num_rows][width], handed to `epilogue` tile by tile, for a panel of kVectors vectors of
/// which the first kFirst are left out. Long depths are cut, for the two-level sum and so that the slice of the panel stays in L1; epilogue.out
/// holds what was summed so far. epilogue.partial is null.
template <int kVectors, int kFirst = 0, class T, class Epilogue>
HWY_INLINE void multiply_rows(const T* HWY_RESTRICT left, Index stride, Index first, Index end,
                              const T* HWY_RESTRICT panel, Index depth, Epilogue& epilogue) {
  constexpr int kRows = kFirst == 0 ? tile_rows(kVectors) : step_rows<T, kVectors - kFirst>();
  Index t = 0;
  for (; t + kMaxDepth < depth; t += kMaxDepth) {
    StoreSums<T, kVectors> store{epilogue.out, t == 0 ? nullptr : epilogue.out, epilogue.prefetch};
    contract_rows<kRows, kFirst, kVectors, Left::kRows>(left + t, stride, first, end, panel + t * kVectors * kLanes<T>,
                                                        kMaxDepth, store);
  }
  if (t > 0) epilogue.partial = epilogue.out;
  contract_rows<kRows, kFirst, kVectors, Left::kRows>(left + t, stride, first, end, panel + t * kVectors * kLanes<T>,
                                                      depth - t, epilogue);
  epilogue.partial = nullptr;
}

/// out = left * panel.
template <int kVectors, class T>
HWY_INLINE void multiply_rows(const T* HWY_RESTRICT left, Index stride, Index num_rows, const T* HWY_RESTRICT panel,
                              Index depth, T* HWY_RESTRICT out) {
  StoreSums<T, kVectors> epilogue{out};
  multiply_rows<kVectors>(left, stride, 0, num_rows, panel, depth, epilogue);
}

/// out = partial + left^T * panel, each vector of the panel only as deep as `steps` says, at most kMaxDepth. A null `partial` is 0.
template <int kVectors, class T>
HWY_INLINE void multiply_columns(const T* HWY_RESTRICT left, Index stride, Index num_columns,
                                 const T* HWY_RESTRICT panel, Steps steps, const T* partial, T* out,
                                 Prefetch<T>* prefetch = nullptr) {
  StoreSums<T, kVectors> epilogue{out, partial, prefetch};
  contract_rows<tile_rows(kVectors), 0, kVectors, Left::kColumns>(left, stride, 0, num_columns, panel, steps, epilogue);
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#endif  // QKV_KERNELS_TILES_INL_H_
