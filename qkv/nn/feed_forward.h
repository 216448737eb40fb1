#pragma once

#include "qkv/nn/linear.h"

namespace qkv {

/// Two linear layers with an activation between: y = down_proj(activation(up_proj(x))).
struct FeedForward {
  Linear up_proj;                                ///< weight [ffn_dim, embed_dim]
  Linear down_proj;                              ///< weight [embed_dim, ffn_dim]
  Activation activation = Activation::kGeluErf;  ///< between the two
};

/// Applies the layer to every position.
/// Shapes: x [batch, len, embed_dim], any strides (last axis: 1). Returns [batch, len, embed_dim of down_proj].
/// Errors: std::invalid_argument if the two layers do not fit together, and as of Linear.
/// Cost: 4 * batch * len * embed_dim * ffn_dim flops; memory for [batch, len, ffn_dim] floats while it runs.
/// Threads: as Linear.
Tensor<float, 3> forward(const FeedForward& layer, CView<3> x, const Run& run = {});

}  // namespace qkv
