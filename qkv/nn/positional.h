#pragma once

#include "qkv/core/tensor.h"
#include "qkv/nn/run.h"

namespace qkv {

/// A vector for each position, added to the embedding of what stands there: attention itself does not know order.
/// Learned, as in BERT, or fixed, as sinusoidal_positions() makes it.
struct PositionalEncoding {
  Tensor<float, 2> weight;  ///< [max_len, embed_dim]
  bool learned = true;      ///< Whether training changes the weight and state dicts hold it.

  /// How many positions there are.
  Index max_len() const { return weight.shape(0); }
  /// Width of a vector.
  Index embed_dim() const { return weight.shape(1); }
};

/// The fixed encoding of the original transformer, sines and cosines side by side:
///   weight[p, 2n] = sin(p / 10000^(2n / embed_dim)),   weight[p, 2n + 1] = cos(p / 10000^(2n / embed_dim))
/// Edge: an odd embed_dim ends with a sine.
/// Errors: std::invalid_argument if max_len is negative or embed_dim is not positive.
/// Source: https://arxiv.org/abs/1706.03762, 3.5.
PositionalEncoding sinusoidal_positions(Index max_len, Index embed_dim);

/// x + the encoding of each position: out[b, i] = x[b, i] + weight[q_start + i].
/// Shapes: x [batch, len, embed_dim], any strides. Returns the same shape, packed.
/// Errors: std::invalid_argument if embed_dim is not that of the layer, q_start is negative, or q_start + len goes
///   beyond max_len.
/// Threads: runs on run.executor.
Tensor<float, 3> forward(const PositionalEncoding& layer, CView<3> x, Index q_start = 0, const Run& run = {});

}  // namespace qkv
