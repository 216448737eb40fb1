#pragma once

#include <cstdint>

#include "qkv/core/tensor.h"
#include "qkv/nn/run.h"

namespace qkv {

/// A learned vector for each id: words, positions, token types.
struct Embedding {
  Tensor<float, 2> weight;  ///< [vocab_size, embed_dim]

  /// How many ids there are.
  Index vocab_size() const { return weight.shape(0); }
  /// Width of a vector.
  Index embed_dim() const { return weight.shape(1); }
};

/// The rows of the table that `tokens` name.
/// Shapes: tokens [batch, len], any strides; returns [batch, len, embed_dim].
/// Errors: std::out_of_range, before any work, for a token that is negative or >= vocab_size.
/// Threads: runs on run.executor.
Tensor<float, 3> forward(const Embedding& layer, TensorView<const std::int32_t, 2> tokens, const Run& run = {});

}  // namespace qkv
