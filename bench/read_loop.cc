#include "bench/read_loop.h"

#include "qkv/kernels/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/read_loop.cc"
#include "qkv/kernels/simd_targets.h"
// simd_targets.h comes first.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::bench {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Four streams: on Zen 3 they read 1.3 times as fast as one, which has one prefetcher at work, and eight no faster.
float sum(const float* data, Index size) {
  constexpr Index kStreams = 4;
  const hn::ScalableTag<float> d;
  const Index lanes = static_cast<Index>(hn::Lanes(d)), stream = size / kStreams;
  hn::Vec<decltype(d)> sums[kStreams * 2];
#pragma GCC unroll 8
  for (auto& partial : sums) partial = hn::Zero(d);
  for (Index n = 0; n < stream; n += 2 * lanes) {
#pragma GCC unroll 8
    for (Index s = 0; s < kStreams; ++s) {
      sums[2 * s] = hn::Add(sums[2 * s], hn::LoadU(d, data + s * stream + n));
      sums[2 * s + 1] = hn::Add(sums[2 * s + 1], hn::LoadU(d, data + s * stream + n + lanes));
    }
  }
#pragma GCC unroll 8
  for (Index s = 1; s < 2 * kStreams; ++s) sums[0] = hn::Add(sums[0], sums[s]);
  return hn::GetLane(hn::SumOfLanes(d, sums[0]));
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::bench {

HWY_EXPORT(sum);

float read_loop(const float* data, Index size) {
  kernels::apply_target_cap();
  return HWY_DYNAMIC_DISPATCH(sum)(data, size);
}

}  // namespace qkv::bench
#endif  // HWY_ONCE
