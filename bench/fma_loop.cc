#include "bench/fma_loop.h"

#include "qkv/kernels/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/fma_loop.cc"
#include "qkv/kernels/simd_targets.h"
// simd_targets.h comes first.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::bench {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 12 chains: more than latency times throughput (4 x 2), and with two constants they fit 16 registers.
Index loop(Index steps) {
  constexpr int kChains = 12;
  const hn::ScalableTag<float> d;
  hn::Vec<decltype(d)> sums[kChains];
#pragma GCC unroll 16
  for (int n = 0; n < kChains; ++n) sums[n] = hn::Set(d, static_cast<float>(n));
  auto factor = hn::Set(d, 0.999f), term = hn::Set(d, 0.001f);
  for (Index step = 0; step < steps; ++step) {
#pragma GCC unroll 16
    for (int n = 0; n < kChains; ++n) sums[n] = hn::MulAdd(sums[n], factor, term);
  }
#pragma GCC unroll 16
  for (int n = 1; n < kChains; ++n) sums[0] = hn::Add(sums[0], sums[n]);
  volatile float used = hn::GetLane(sums[0]);  // or the compiler drops the loop
  static_cast<void>(used);
  return steps * kChains * 2 * static_cast<Index>(hn::Lanes(d));
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::bench {

HWY_EXPORT(loop);

Index fma_loop(Index steps) {
  kernels::apply_target_cap();
  return HWY_DYNAMIC_DISPATCH(loop)(steps);
}

}  // namespace qkv::bench
#endif  // HWY_ONCE
