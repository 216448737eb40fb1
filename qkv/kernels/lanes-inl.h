// The vector type that every kernel works with.

#if defined(QKV_KERNELS_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_LANES_INL_H_
#undef QKV_KERNELS_LANES_INL_H_
#else
#define QKV_KERNELS_LANES_INL_H_
#endif

#include "hwy/highway.h"
#include "qkv/core/index.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using VecF32 = hn::Vec<F32>;
constexpr Index kLanes = hn::MaxLanes(F32());

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#endif  // QKV_KERNELS_LANES_INL_H_
