#pragma once

// Include before any Highway header. Fixes the set of SIMD targets that each kernel is compiled for, in one place:
// on x86 portable (no vectors beyond the baseline), SSE4, AVX2 and AVX3 (AVX-512); on Arm NEON.
// SSSE3 adds nothing over SSE4 here, AVX3_DL nothing over AVX3 for floating point, and SVE's sizeless vectors cannot
// form the arrays that the register tiles are made of.
#include "hwy/detect_targets.h"

#if HWY_ARCH_X86
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#elif HWY_ARCH_ARM
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif
