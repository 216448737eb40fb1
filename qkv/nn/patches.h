#pragma once

#include "qkv/core/tensor.h"
#include "qkv/nn/run.h"

namespace qkv {

/// Cuts pictures into square patches that do not overlap, one row for each: a picture as a sequence, which a linear
/// layer and attention then read like words.
/// Shapes: pictures [batch, height, width, channels], any strides. Returns [batch, num_patches, patch * patch *
///   channels], patches from left to right and from top to bottom, values of a patch in the order [row, column,
///   channel].
/// Errors: std::invalid_argument unless patch is positive and divides height and width.
/// Threads: runs on run.executor.
/// Source: https://arxiv.org/abs/2010.11929, 3.1.
Tensor<float, 3> cut_patches(CView<4> pictures, Index patch, const Run& run = {});

}  // namespace qkv
