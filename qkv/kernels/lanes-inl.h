// The vectors that every kernel works with: as wide as the SIMD target has them, of float or of double.

#if defined(QKV_KERNELS_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_LANES_INL_H_
#undef QKV_KERNELS_LANES_INL_H_
#else
#define QKV_KERNELS_LANES_INL_H_
#endif

#include "hwy/highway.h"
#include "qkv/core/index.h"

/// For a lambda whose captures are to stay in registers.
#undef QKV_INLINE_LAMBDA
#define QKV_INLINE_LAMBDA __attribute__((always_inline))

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vec = hn::Vec<Tag<T>>;
template <class T>
inline constexpr Index kLanes = hn::MaxLanes(Tag<T>());

/// Whether vectors are wide enough for weighing in registers, and for leaving out the first of them, to be worth their code: on AVX2 those of
/// floats, on AVX-512 those of doubles, too.
template <class T>
inline constexpr bool kLanesAreMany = kLanes<T> >= 8;

inline constexpr bool kHas32Registers = HWY_ARCH_ARM_A64 || kLanes<float> == 16;

/// Elements of a cache line.
template <class T>
inline constexpr Index kLineElements = 64 / Index{sizeof(T)};

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#endif  // QKV_KERNELS_LANES_INL_H_
