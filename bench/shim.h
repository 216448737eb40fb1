#pragma once

#include "qkv/core/executor.h"

// What the files of libqkv_shim.so share.
namespace qkv::bench {

/// Runs every call of the shim: as many threads as qkv_set_threads() said last, at first the calling one.
Executor& executor();

}  // namespace qkv::bench
