#pragma once

#include "qkv/core/index.h"

namespace qkv::bench {

/// Which numbers a loop or a call is about.
enum class Precision { kF32, kF64 };

/// Runs `steps` steps of nothing but fused multiply-adds in registers, with the vectors of the active SIMD target, and returns how many
/// flops that were (two for each lane of each FMA): the most that a kernel of this target can reach.
Index fma_loop(Precision precision, Index steps);

}  // namespace qkv::bench
