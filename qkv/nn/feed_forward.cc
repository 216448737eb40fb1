#include "qkv/nn/feed_forward.h"

#include <string>

namespace qkv {

Tensor<float, 3> forward(const FeedForward& layer, CView<3> x, const Run& run) {
  check(layer.down_proj.in_dim() == layer.up_proj.out_dim(), "feed_forward", "down_proj.weight.shape[1] (ffn_dim)",
        layer.down_proj.in_dim(), std::to_string(layer.up_proj.out_dim()) + " as in up_proj");
  Tensor<float, 3> hidden({x.shape(0), x.shape(1), layer.up_proj.out_dim()});
  linear_into(layer.up_proj, hidden, x, layer.activation, run);
  return forward(layer.down_proj, hidden, run);
}

}  // namespace qkv
