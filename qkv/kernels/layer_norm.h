#pragma once

#include "qkv/core/index.h"

namespace qkv::kernels {

/// y = (x - mean) / sqrt(variance + eps) * weight + bias for a row of dim values. weight and bias are in double, so that only one call
/// of many has to convert them.
struct LayerNormArgs {
  const double* weight = nullptr;  ///< [dim]
  const double* bias = nullptr;    ///< [dim]
  Index dim = 0;                   ///< >= 1
  double eps = 0;                  ///< >= 0
};

/// Normalises a row, or the sum of two where `residual` is not null. All is computed in double and rounded once, into y. Bits depend on
/// the row and the SIMD target only.
void layer_norm_row(const LayerNormArgs& args, const float* x, const float* residual, float* y);

}  // namespace qkv::kernels
