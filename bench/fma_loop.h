#pragma once

#include "qkv/core/index.h"

namespace qkv::bench {

/// Runs `steps` steps of nothing but fused multiply-adds in registers, with the vectors of the active SIMD target, and returns how many
/// flops that were (two for each lane of each FMA): the most that a kernel of this target can reach.
Index fma_loop(Index steps);

}  // namespace qkv::bench
