#pragma once

// Include before any Highway header. Names the SIMD targets that each kernel is compiled for, in one place: on x86 portable (the
// baseline), SSE4, AVX2 and AVX3 (AVX-512), on Arm NEON. Others, those of newer Highways too, add nothing for floating point here, and
// SVE's sizeless vectors cannot form the arrays that the register tiles are made of.
#include "hwy/detect_targets.h"

#undef HWY_DISABLED_TARGETS
#if HWY_ARCH_X86
#define HWY_DISABLED_TARGETS (~(HWY_AVX3 | HWY_AVX2 | HWY_SSE4 | HWY_EMU128 | HWY_SCALAR))
#elif HWY_ARCH_ARM
#define HWY_DISABLED_TARGETS (~(HWY_NEON | HWY_EMU128 | HWY_SCALAR))
#else
#define HWY_DISABLED_TARGETS 0
#endif
