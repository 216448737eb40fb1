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
template <class T>
Index loop(Index steps) {
  constexpr int kChains = 12;
  const hn::ScalableTag<T> d;
  hn::Vec<decltype(d)> sums[kChains];
#pragma GCC unroll 16
  for (int n = 0; n < kChains; ++n) sums[n] = hn::Set(d, static_cast<T>(n));
  auto factor = hn::Set(d, T(0.999)), term = hn::Set(d, T(0.001));
  for (Index step = 0; step < steps; ++step) {
#pragma GCC unroll 16
    for (int n = 0; n < kChains; ++n) sums[n] = hn::MulAdd(sums[n], factor, term);
  }
#pragma GCC unroll 16
  for (int n = 1; n < kChains; ++n) sums[0] = hn::Add(sums[0], sums[n]);
  volatile T used = hn::GetLane(sums[0]);  // or the compiler drops the loop
  static_cast<void>(used);
  return steps * kChains * 2 * static_cast<Index>(hn::Lanes(d));
}

Index loop_f32(Index steps) {
  return loop<float>(steps);
}

Index loop_f64(Index steps) {
  return loop<double>(steps);
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::bench {

HWY_EXPORT(loop_f32);
HWY_EXPORT(loop_f64);

Index fma_loop(Precision precision, Index steps) {
  kernels::apply_target_cap();
  if (precision == Precision::kF64) return HWY_DYNAMIC_DISPATCH(loop_f64)(steps);
  return HWY_DYNAMIC_DISPATCH(loop_f32)(steps);
}

}  // namespace qkv::bench
#endif  // HWY_ONCE
