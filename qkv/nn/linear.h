#pragma once

#include <optional>

#include "qkv/core/tensor.h"
#include "qkv/kernels/gemm.h"
#include "qkv/nn/run.h"

namespace qkv {

using kernels::Activation;

/// Borrows the parameters of a linear layer, or of some of its outputs.
struct LinearView {
  CView<2> weight;                              ///< [out_dim, in_dim], last axis: stride 1
  std::optional<CView<1>> bias = std::nullopt;  ///< [out_dim], stride 1

  /// Width of what it reads.
  Index in_dim() const { return weight.shape(1); }
  /// Width of what it gives.
  Index out_dim() const { return weight.shape(0); }

  /// The layer that computes outputs begin .. end-1 only.
  LinearView outputs(Index begin, Index end) const {
    LinearView part{.weight = weight.slice(0, begin, end)};
    if (bias) part.bias = bias->slice(0, begin, end);
    return part;
  }
};

/// A learned linear map of the last axis, as PyTorch's nn.Linear: y = x weight^T + bias.
struct Linear {
  Tensor<float, 2> weight;                              ///< [out_dim, in_dim]
  std::optional<Tensor<float, 1>> bias = std::nullopt;  ///< [out_dim]

  /// Width of what it reads.
  Index in_dim() const { return weight.shape(1); }
  /// Width of what it gives.
  Index out_dim() const { return weight.shape(0); }

  /// Its parameters, borrowed. Where a LinearView is expected, the layer itself will do.
  /// @{
  LinearView view() const {
    return {.weight = weight, .bias = bias ? std::optional<CView<1>>(bias->view()) : std::nullopt};
  }
  operator LinearView() const { return view(); }  // NOLINT(google-explicit-constructor)
  /// @}
};

/// Applies the layer to every position.
/// Shapes: x [batch, len, in_dim], any strides (last axis: 1; rank 2 views read as a batch of 1).
/// Returns [batch, len, out_dim]. Edge: batch or len may be 0.
/// Errors: std::invalid_argument if in_dim is not that of the layer or beyond 2^40, the bias has another length than out_dim, a weight
///   has no elements, or the last-axis stride is not 1.
/// Cost: 2 * batch * len * in_dim * out_dim flops.
/// Threads: runs on run.executor; the bits of the result do not depend on the number of threads. They may differ in the last places between
///   products of up to four positions and of more; one product takes all positions, or those of a batch entry if entries do not lie one after
///   another in x and in the result.
Tensor<float, 3> forward(const Linear& layer, CView<3> x, const Run& run = {});

/// The same, followed by an activation, into memory of the caller's: out [batch, len, out_dim], any strides that do not
/// overlap (last axis: 1). out and x must not share memory. Errors: as forward(), and where `out` has another shape.
void linear_into(const LinearView& layer, View<3> out, CView<3> x, Activation activation, const Run& run = {});

}  // namespace qkv
