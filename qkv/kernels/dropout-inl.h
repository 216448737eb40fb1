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

using U32 = hn::RebindToUnsigned<F32>;
using VecU32 = hn::Vec<U32>;

/// The 64-bit products of the lanes with `factor`.
HWY_INLINE void multiply_wide(U32 d, VecU32 x, std::uint32_t factor, VecU32& low, VecU32& high) {
#if HWY_TARGET == HWY_SCALAR
  const std::uint64_t product = std::uint64_t{hn::GetLane(x)} * factor;
  low = hn::Set(d, static_cast<std::uint32_t>(product));
  high = hn::Set(d, static_cast<std::uint32_t>(product >> 32));
#else
  const hn::RepartitionToWide<U32> wide;
  const auto factors = hn::Set(d, factor);
  const auto even = hn::MulEven(x, factors);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, x))), factors);
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
#endif
}

/// philox4x32<7> in every lane.
HWY_INLINE void philox(U32 d, std::uint64_t seed, VecU32 (&counter)[4]) {
  auto key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
#pragma GCC unroll 7
  for (int round = 0; round < 7; ++round) {
    VecU32 low0, high0, low1, high1;
    multiply_wide(d, counter[0], kPhiloxMultiplier[0], low0, high0);
    multiply_wide(d, counter[2], kPhiloxMultiplier[1], low1, high1);
    counter[0] = hn::Xor(hn::Xor(high1, counter[1]), hn::Set(d, key0));
    counter[1] = low1;
    counter[2] = hn::Xor(hn::Xor(high0, counter[3]), hn::Set(d, key1));
    counter[3] = low0;
    key0 += kPhiloxStep[0];
    key1 += kPhiloxStep[1];
  }
}

/// Sets the dropped ones among the weights of a tile to 0. The others are scaled once, at the end: see keep_scale().
template <int kVectors>
HWY_NOINLINE void drop_weights(const Head& head, const Panel& panel, KeyRange tile, float* HWY_RESTRICT weights) {
  constexpr Index kKeysPerBlock = 8;  // 16 bits each of 128
  const F32 d;
  const U32 du;
  const DropoutBits& dropout = *head.args.dropout;
  const auto threshold = hn::Set(du, dropout.threshold);
  const auto set = [&](std::uint64_t x) { return hn::Set(du, static_cast<std::uint32_t>(x)); };
  const auto batch = set(dropout.batch_start + static_cast<std::uint64_t>(head.b));
  for (Index block = tile.begin / kKeysPerBlock; block * kKeysPerBlock < tile.end; ++block) {
    const Index first_key = block * kKeysPerBlock;
    for (Index i = 0; i < kVectors * kLanes; i += kLanes) {
      const auto query = hn::Iota(du, static_cast<std::uint32_t>(panel.first_query + i));
      VecU32 words[4] = {query, set(static_cast<std::uint64_t>(block)), set(static_cast<std::uint64_t>(head.h)), batch};
      philox(du, dropout.seed, words);
#pragma GCC unroll 8
      for (Index n = 0; n < kKeysPerBlock; ++n) {
        if (first_key + n < tile.begin || first_key + n >= tile.end) continue;
        const auto word = words[n / 2];
        const auto bits = n % 2 ? hn::ShiftRight<16>(word) : hn::And(word, hn::Set(du, 0xFFFF));
        float* const place = weights + (first_key + n - tile.begin) * kVectors * kLanes + i;
        const auto dropped = hn::RebindMask(d, hn::Lt(bits, threshold));
        hn::Store(hn::IfThenZeroElse(dropped, hn::Load(d, place)), d, place);
      }
    }
  }
}

/// What the weights that were not dropped are multiplied by.
inline float keep_scale(const AttentionArgs<float>& args) {
  constexpr std::uint32_t kAll = 65536;
  if (!args.dropout || args.dropout->threshold == kAll) return 1;
  return static_cast<float>(kAll) / static_cast<float>(kAll - args.dropout->threshold);
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#endif  // QKV_KERNELS_DROPOUT_INL_H_
