// Strided rows <-> panels. A panel holds a matrix transposed: [cols][width], so that one row of the source lies in one
// lane.

#if defined(QKV_KERNELS_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_TRANSPOSE_INL_H_
#undef QKV_KERNELS_TRANSPOSE_INL_H_
#else
#define QKV_KERNELS_TRANSPOSE_INL_H_
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "qkv/core/index.h"
#include "qkv/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR  // one lane needs no transposing

/// Lanes of a 128-bit block: the unit in which vectors can be transposed on every target.
template <class T>
inline constexpr int kBlock = 16 / sizeof(T);

/// A vector whose block b holds kBlock elements from p[b * kBlock * stride] on: as many columns of every kBlock-th row.
template <class D>
HWY_INLINE hn::Vec<D> load_blocks(D d, const hn::TFromD<D>* HWY_RESTRICT p, Index stride) {
  if constexpr (hn::MaxLanes(D()) <= kBlock<hn::TFromD<D>>) {
    return hn::LoadU(d, p);
  } else {
    const hn::Half<D> half;
    constexpr Index kUpperRow = hn::MaxLanes(D()) / 2;
    return hn::Combine(d, load_blocks(half, p + kUpperRow * stride, stride), load_blocks(half, p, stride));
  }
}

template <class D>
HWY_INLINE void store_blocks(D d, hn::Vec<D> v, hn::TFromD<D>* HWY_RESTRICT p, Index stride) {
  if constexpr (hn::MaxLanes(D()) <= kBlock<hn::TFromD<D>>) {
    hn::StoreU(v, d, p);
  } else {
    const hn::Half<D> half;
    constexpr Index kUpperRow = hn::MaxLanes(D()) / 2;
    store_blocks(half, hn::LowerHalf(half, v), p, stride);
    store_blocks(half, hn::UpperHalf(half, v), p + kUpperRow * stride, stride);
  }
}

/// Transposes the square matrix that the blocks b of all v form, for every b.
/// @{
template <class D>
HWY_INLINE void transpose_blocks(D d, hn::Vec<D> (&v)[4]) {
  const hn::RepartitionToWide<decltype(d)> wide;
  const auto lower01 = hn::BitCast(wide, hn::InterleaveLower(d, v[0], v[1]));
  const auto upper01 = hn::BitCast(wide, hn::InterleaveUpper(d, v[0], v[1]));
  const auto lower23 = hn::BitCast(wide, hn::InterleaveLower(d, v[2], v[3]));
  const auto upper23 = hn::BitCast(wide, hn::InterleaveUpper(d, v[2], v[3]));
  v[0] = hn::BitCast(d, hn::InterleaveLower(wide, lower01, lower23));
  v[1] = hn::BitCast(d, hn::InterleaveUpper(wide, lower01, lower23));
  v[2] = hn::BitCast(d, hn::InterleaveLower(wide, upper01, upper23));
  v[3] = hn::BitCast(d, hn::InterleaveUpper(wide, upper01, upper23));
}
template <class D>
HWY_INLINE void transpose_blocks(D d, hn::Vec<D> (&v)[2]) {
  const auto lower = hn::InterleaveLower(d, v[0], v[1]);
  v[1] = hn::InterleaveUpper(d, v[0], v[1]);
  v[0] = lower;
}
/// @}

/// Stores the sum of all blocks of v.
template <class D>
HWY_INLINE void add_blocks(D d, hn::Vec<D> v, hn::TFromD<D>* HWY_RESTRICT sum) {
  if constexpr (hn::MaxLanes(D()) <= kBlock<hn::TFromD<D>>) {
    hn::StoreU(v, d, sum);
  } else {
    const hn::Half<D> half;
    add_blocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), sum);
  }
}

/// Transposes the square matrix whose elements are the blocks of v.
/// @{
template <class D>
HWY_INLINE void exchange_blocks(D d, hn::Vec<D> (&v)[2]) {
  const auto lower = hn::ConcatLowerLower(d, v[1], v[0]);
  v[1] = hn::ConcatUpperUpper(d, v[1], v[0]);
  v[0] = lower;
}
template <class D>
HWY_INLINE void exchange_blocks(D d, hn::Vec<D> (&v)[4]) {
  const auto lower02 = hn::ConcatLowerLower(d, v[2], v[0]), lower13 = hn::ConcatLowerLower(d, v[3], v[1]);
  const auto upper02 = hn::ConcatUpperUpper(d, v[2], v[0]), upper13 = hn::ConcatUpperUpper(d, v[3], v[1]);
  v[0] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(lower13), lower02);
  v[1] = hn::OddEvenBlocks(lower13, hn::SwapAdjacentBlocks(lower02));
  v[2] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(upper13), upper02);
  v[3] = hn::OddEvenBlocks(upper13, hn::SwapAdjacentBlocks(upper02));
}
/// @}

/// Blocks side by side that are packed at once: with 32 registers those of a cache line, with 16 half of them. Block by block, rows that lie a
/// multiple of 4 KiB apart push each other's lines out of L1 before their next block is due.
template <class T>
inline constexpr int kBlocksAtOnce = kHas32Registers ? 4 : 2;

/// kLanes rows of kBlocks * kBlock columns into a panel.
template <int kBlocks, class T, class Change>
HWY_INLINE void pack_blocks(const T* HWY_RESTRICT rows, Index stride, T* HWY_RESTRICT panel, Index width,
                            const Change& change) {
  const Tag<T> d;
  Vec<T> v[kBlocks][kBlock<T>];
#pragma GCC unroll 4
  for (Index r = 0; r < kBlock<T>; ++r)
#pragma GCC unroll 4
    for (Index b = 0; b < kBlocks; ++b) v[b][r] = load_blocks(d, rows + r * stride + b * kBlock<T>, stride);
#pragma GCC unroll 4
  for (Index b = 0; b < kBlocks; ++b) {
    transpose_blocks(d, v[b]);
#pragma GCC unroll 4
    for (Index r = 0; r < kBlock<T>; ++r) hn::Store(change(d, v[b][r]), d, panel + (b * kBlock<T> + r) * width);
  }
}

/// kLanes rows of kLanes columns out of a panel, a whole vector of a row at once.
template <class T, class Change>
HWY_INLINE void unpack_square(const T* HWY_RESTRICT panel, Index width, T* HWY_RESTRICT rows, Index stride,
                              const Change& change) {
  const Tag<T> d;
  constexpr Index kBlocks = kLanes<T> / kBlock<T>;
  Vec<T> v[kBlocks][kBlock<T>];
#pragma GCC unroll 4
  for (Index b = 0; b < kBlocks; ++b) {
#pragma GCC unroll 4
    for (Index r = 0; r < kBlock<T>; ++r)
      v[b][r] = change(b * kBlock<T> + r, hn::Load(d, panel + (b * kBlock<T> + r) * width));
    transpose_blocks(d, v[b]);
  }
#pragma GCC unroll 4
  for (Index r = 0; r < kBlock<T>; ++r) {
    Vec<T> row[kBlocks];
#pragma GCC unroll 4
    for (Index b = 0; b < kBlocks; ++b) row[b] = v[b][r];
    exchange_blocks(d, row);
#pragma GCC unroll 4
    for (Index b = 0; b < kBlocks; ++b) hn::StoreU(row[b], d, rows + (b * kBlock<T> + r) * stride);
  }
}

/// Whether rows so far apart, whole pages of 4 KiB, fall into one of the 64 sets of an L1, whose 8 or 12 ways do not hold a line of each of kLanes rows. Then
/// whole vectors are written: on AVX-512 [B, N, H, D] with 8 heads of 128 became 14 % faster, a Linear layer with 3072 outputs 4 to 6 %. Elsewhere blocks
/// are better, which come back to a line while it is there: whole vectors cost 10 % with 16 queries of 128, packed.
template <class T>
constexpr bool rows_collide(Index stride) {
  return stride % (4096 / Index{sizeof(T)}) == 0;
}

#endif  // HWY_TARGET != HWY_SCALAR

/// panel[c * width + i] = change(d, rows[i * stride + c]) for i < num_rows, c < cols, where d is the tag of the vector that is changed. Lanes
/// from num_rows on become 0.
template <class T, class Change>
HWY_INLINE void pack_panel(const T* HWY_RESTRICT rows, Index stride, Index num_rows, Index cols, T* HWY_RESTRICT panel,
                           Index width, const Change& change) {
  const hn::CappedTag<T, 1> one_lane;
  for (Index i = 0; i < width; i += kLanes<T>) {
    Index c = 0;
#if HWY_TARGET != HWY_SCALAR
    if (i + kLanes<T> <= num_rows) {
      const T* const from = rows + i * stride;
      T* const to = panel + i;
      for (; c + kBlocksAtOnce<T> * kBlock<T> <= cols; c += kBlocksAtOnce<T> * kBlock<T>)
        pack_blocks<kBlocksAtOnce<T>>(from + c, stride, to + c * width, width, change);
      for (; c + kBlock<T> <= cols; c += kBlock<T>) pack_blocks<1>(from + c, stride, to + c * width, width, change);
    }
#endif
    if (num_rows < i + kLanes<T>)
      for (Index column = 0; column < cols; ++column) std::fill_n(panel + column * width + i, kLanes<T>, T{0});
    for (Index lane = i; lane < std::min(i + kLanes<T>, num_rows); ++lane)
      for (Index column = c; column < cols; ++column)
        hn::Store(change(one_lane, hn::Set(one_lane, rows[lane * stride + column])), one_lane,
                  panel + column * width + lane);
  }
}

/// panel[c * width + i] = rows[i * stride + c].
template <class T>
inline HWY_NOINLINE void pack_panel(const T* HWY_RESTRICT rows, Index stride, Index num_rows, Index cols,
                                    T* HWY_RESTRICT panel, Index width) {
  pack_panel(rows, stride, num_rows, cols, panel, width, [](auto, auto v) { return v; });
}

/// rows[i * stride + c] = change(c, panel[c * width + i]) for i < num_rows <= kLanes, c < cols.
template <class T, class Change>
HWY_INLINE void unpack_lanes(const T* HWY_RESTRICT panel, Index width, Index num_rows, Index cols, T* HWY_RESTRICT rows,
                             Index stride, const Change& change) {
  const Tag<T> d;
  Index c = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kBlock<T> != kLanes<T>) {
    for (; num_rows == kLanes<T> && rows_collide<T>(stride) && c + kLanes<T> <= cols; c += kLanes<T>)
      unpack_square(panel + c * width, width, rows + c, stride, [&](Index n, Vec<T> v) { return change(c + n, v); });
  }
  for (; num_rows == kLanes<T> && c + kBlock<T> <= cols; c += kBlock<T>) {
    Vec<T> v[kBlock<T>];
    for (Index r = 0; r < kBlock<T>; ++r) v[r] = change(c + r, hn::Load(d, panel + (c + r) * width));
    transpose_blocks(d, v);
    for (Index r = 0; r < kBlock<T>; ++r) store_blocks(d, v[r], rows + r * stride + c, stride);
  }
#endif
  for (; c < cols; ++c) {
    HWY_ALIGN T lanes[kLanes<T>];
    hn::Store(change(c, hn::Load(d, panel + c * width)), d, lanes);
    for (Index i = 0; i < num_rows; ++i) rows[i * stride + c] = lanes[i];
  }
}

/// The same for any number of rows.
template <class T, class Change>
HWY_INLINE void unpack_panel(const T* HWY_RESTRICT panel, Index width, Index num_rows, Index cols, T* HWY_RESTRICT rows,
                             Index stride, const Change& change) {
  for (Index i = 0; i < num_rows; i += kLanes<T>)
    unpack_lanes(panel + i, width, std::min(kLanes<T>, num_rows - i), cols, rows + i * stride, stride, change);
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#endif  // QKV_KERNELS_TRANSPOSE_INL_H_
