// Dropout without a stored mask: the random bits of a weight follow from its place, by the generator that DropoutBits describes.

#if defined(QKV_KERNELS_DROPOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_DROPOUT_INL_H_
#undef QKV_KERNELS_DROPOUT_INL_H_
#else
#define QKV_KERNELS_DROPOUT_INL_H_
#endif

#include "hwy/highway.h"
#include "qkv/core/random.h"
#include "qkv/kernels/panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels {
namespace HWY_NAMESPACE {

/// philox4x32<7> in every lane. The words of even and of odd lanes are kept apart, each in the lower half of 64 bits, so that products need
/// not be put together before the end; what is in the upper halves does not count.
template <class U32, class V = hn::Vec<U32>>
HWY_INLINE void philox(U32 d, std::uint64_t seed, V (&counter)[4]) {
  auto key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
#if HWY_TARGET == HWY_SCALAR
  const auto words = philox4x32<7>(
      {hn::GetLane(counter[0]), hn::GetLane(counter[1]), hn::GetLane(counter[2]), hn::GetLane(counter[3])},
      {key0, key1});
  for (int n = 0; n < 4; ++n) counter[n] = hn::Set(d, words[n]);
#else
  const hn::RepartitionToWide<U32> wide;
  V half[2][4];
  for (int n = 0; n < 4; ++n) {
    half[0][n] = counter[n];
    half[1][n] = hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, counter[n])));
  }
#pragma GCC unroll 7
  for (int round = 0; round < 7; ++round) {
#pragma GCC unroll 2
    for (auto& words : half) {
      const auto product0 = hn::MulEven(words[0], hn::Set(d, kPhiloxMultiplier[0]));
      const auto product1 = hn::MulEven(words[2], hn::Set(d, kPhiloxMultiplier[1]));
      const auto high0 = hn::BitCast(d, hn::ShiftRight<32>(product0)),
                 high1 = hn::BitCast(d, hn::ShiftRight<32>(product1));
      words[0] = hn::Xor3(high1, words[1], hn::Set(d, key0));
      words[1] = hn::BitCast(d, product1);
      words[2] = hn::Xor3(high0, words[3], hn::Set(d, key1));
      words[3] = hn::BitCast(d, product0);
    }
    key0 += kPhiloxStep[0];
    key1 += kPhiloxStep[1];
  }
  for (int n = 0; n < 4; ++n)
    counter[n] = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(hn::BitCast(wide, half[1][n]))), half[0][n]);
#endif
}

/// The lanes of a vector of T in whose place the 32-bit lanes of `bits` are below the threshold.
template <class T, class V>
HWY_INLINE hn::Mask<Tag<T>> is_below(V bits, std::uint32_t threshold) {
  const Tag<T> d;
  if constexpr (sizeof(T) == 4) {
    const hn::RebindToUnsigned<Tag<T>> du;
    return hn::RebindMask(d, hn::Lt(bits, hn::Set(du, threshold)));
  } else {
    const hn::RebindToUnsigned<Tag<T>> du;
    const hn::RebindToSigned<Tag<T>> di;
    return hn::RebindMask(d, hn::Lt(hn::BitCast(di, hn::PromoteTo(du, bits)), hn::Set(di, std::int64_t{threshold})));
  }
}

/// Sets the dropped ones among the weights of a tile to 0. The others are scaled once, at the end: see keep_scale().
template <int kVectors, class T>
HWY_NOINLINE void drop_weights(const Head<T>& head, const Panel<T>& panel, KeyRange tile, T* HWY_RESTRICT weights) {
  constexpr Index kKeysPerBlock = 8;  // 16 bits each of 128
  const Tag<T> d;
  const hn::Rebind<std::uint32_t, Tag<T>> du;
  const DropoutBits& dropout = *head.args.dropout;
  const auto set = [&](std::uint64_t x) { return hn::Set(du, static_cast<std::uint32_t>(x)); };
  const auto batch = set(dropout.batch_start + static_cast<std::uint64_t>(head.b));
  for (Index block = tile.begin / kKeysPerBlock; block * kKeysPerBlock < tile.end; ++block) {
    const Index first_key = block * kKeysPerBlock;
    for (Index i = 0; i < kVectors * kLanes<T>; i += kLanes<T>) {
      const auto query = hn::Iota(du, static_cast<std::uint32_t>(panel.first_query + i));
      hn::Vec<decltype(du)> words[4] = {query, set(static_cast<std::uint64_t>(block)),
                                        set(static_cast<std::uint64_t>(head.h)), batch};
      philox(du, dropout.seed, words);
#pragma GCC unroll 8
      for (Index n = 0; n < kKeysPerBlock; ++n) {
        if (first_key + n < tile.begin || first_key + n >= tile.end) continue;
        const auto word = words[n / 2];
        const auto bits = n % 2 ? hn::ShiftRight<16>(word) : hn::And(word, hn::Set(du, 0xFFFF));
        T* const place = weights + (first_key + n - tile.begin) * kVectors * kLanes<T> + i;
        hn::Store(hn::IfThenZeroElse(is_below<T>(bits, dropout.threshold), hn::Load(d, place)), d, place);
      }
    }
  }
}

/// What the weights that were not dropped are multiplied by.
template <class T>
inline T keep_scale(const AttentionArgs<T>& args) {
  constexpr std::uint32_t kAll = 65536;
  if (!args.dropout || args.dropout->threshold == kAll) return 1;
  return static_cast<T>(kAll) / static_cast<T>(kAll - args.dropout->threshold);
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#endif  // QKV_KERNELS_DROPOUT_INL_H_
