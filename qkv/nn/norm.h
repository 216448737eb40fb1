#pragma once

#include <optional>

#include "qkv/core/tensor.h"
#include "qkv/nn/run.h"

namespace qkv {

/// Layer normalisation of the last axis, as PyTorch's nn.LayerNorm:
///   y = (x - mean) / sqrt(variance + eps) * weight + bias;   variance = mean of (x - mean)^2
struct LayerNorm {
  Tensor<float, 1> weight;                              ///< [embed_dim]
  std::optional<Tensor<float, 1>> bias = std::nullopt;  ///< [embed_dim]
  double eps = 1e-5;                                    ///< PyTorch's default; BERT has 1e-12

  /// Width of what it normalises.
  Index embed_dim() const { return weight.shape(0); }
};

/// Normalises every position.
/// Shapes: x [batch, len, embed_dim], any strides (last axis: 1). Returns the same shape, packed.
/// Edge: a row of equal values gives the bias (0 / sqrt(eps) * weight + bias), with eps = 0 NaN; NaN stays in its row.
/// Errors: std::invalid_argument if embed_dim is 0 or not that of the layer, the bias has another length, eps is
///   negative or not finite, or the last-axis stride is not 1.
/// Threads: runs on run.executor; all is computed in double, in an order that depends on embed_dim and the SIMD target only.
/// Source: https://arxiv.org/abs/1607.06450
Tensor<float, 3> forward(const LayerNorm& layer, CView<3> x, const Run& run = {});

/// norm(x + residual): the step after each half of a post-norm block, without the sum ever being rounded to float.
/// Shapes: both [batch, len, embed_dim]. Errors: as forward(), and where the shapes differ.
Tensor<float, 3> forward_sum(const LayerNorm& layer, CView<3> x, CView<3> residual, const Run& run = {});

}  // namespace qkv
