#pragma once

#include "qkv/core/index.h"

namespace qkv::bench {

/// What read_loop() reads comes in multiples of this many floats.
inline constexpr Index kReadStep = 256;

/// The sum of `size` floats, a multiple of kReadStep, read as several streams side by side: little but loads, so that memory is what bounds it.
float read_loop(const float* data, Index size);

}  // namespace qkv::bench
