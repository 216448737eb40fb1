#pragma once

#include "bench/fma_loop.h"
#include "qkv/core/executor.h"

namespace qkv::bench {

/// Seconds of a clock that only ever goes forward.
double seconds_now();

/// GFLOP/s of fma_loop() on all workers of `executor` at once, over about `seconds`.
double fma_gflops(Executor& executor, Precision precision, double seconds);

/// GB/s (1e9 bytes) of all workers of `executor` reading `size` floats once, by read_loop(). A rest below kReadStep of each task is left out.
double read_gbytes(Executor& executor, const float* data, Index size);

}  // namespace qkv::bench
