#include "qkv/nn/mha_compat.h"

namespace qkv {

Tensor<bool, 4> keep_from_attn_mask(TensorView<const bool, 4> attn_mask) {
  Tensor<bool, 4> keep(attn_mask.shape());
  bool* value = keep.data();
  for (Index b = 0; b < keep.shape(0); ++b)
    for (Index h = 0; h < keep.shape(1); ++h)
      for (Index i = 0; i < keep.shape(2); ++i)
        for (Index j = 0; j < keep.shape(3); ++j) *value++ = !attn_mask(b, h, i, j);
  return keep;
}

Tensor<bool, 4> keep_from_key_padding_mask(TensorView<const bool, 2> key_padding_mask) {
  const Index batch = key_padding_mask.shape(0), kv_len = key_padding_mask.shape(1);
  return keep_from_attn_mask(
      {key_padding_mask.data(), {batch, 1, 1, kv_len}, {key_padding_mask.stride(0), 0, 0, key_padding_mask.stride(1)}});
}

Tensor<float, 3> average_heads(CView<4> attn_weights) {
  const Index num_heads = attn_weights.shape(1);
  check(num_heads >= 1, "average_heads", "attn_weights.shape[1] (num_heads)", num_heads, ">= 1");
  Tensor<float, 3> mean({attn_weights.shape(0), attn_weights.shape(2), attn_weights.shape(3)});
  float* value = mean.data();
  for (Index b = 0; b < mean.shape(0); ++b)
    for (Index i = 0; i < mean.shape(1); ++i)
      for (Index j = 0; j < mean.shape(2); ++j) {
        double sum = 0;
        for (Index h = 0; h < num_heads; ++h) sum += attn_weights(b, h, i, j);
        *value++ = static_cast<float>(sum / static_cast<double>(num_heads));
      }
  return mean;
}

}  // namespace qkv
