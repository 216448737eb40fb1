#pragma once

#include <cstdint>

#include "qkv/core/executor.h"

namespace qkv {

/// What a layer may know about the run it is part of.
struct Run {
  /// Who runs the tasks; null: default_executor().
  Executor* executor = nullptr;
  /// Whether the run is part of training. Layers drop only then; evaluation ignores their dropout.
  bool training = false;
  /// Which weights a layer drops in training: another seed for each layer and each step, other weights.
  std::uint64_t seed = 0;
};

/// The executor that `run` names.
inline Executor& executor_of(const Run& run) {
  return run.executor ? *run.executor : default_executor();
}

}  // namespace qkv
