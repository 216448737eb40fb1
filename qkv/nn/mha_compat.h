#pragma once

#include <algorithm>

#include "qkv/core/tensor.h"

// Habits of other frameworks' multi-head attention, turned into ours: the polarity of masks, weights averaged over
// heads, lengths beyond the end. Nothing else of the library knows of them.

namespace qkv {

/// attn_mask of PyTorch's nn.MultiheadAttention, where true = ignore, as Mask::keep, where true = may attend.
/// Shapes: [q_len, kv_len] as it is; PyTorch's [batch * num_heads, q_len, kv_len] after .split_axis(0, num_heads).
///   (Masks of scaled_dot_product_attention, where true = attend, need no change.)
Tensor<bool, 4> keep_from_attn_mask(TensorView<const bool, 4> attn_mask);

/// key_padding_mask [batch, kv_len] of nn.MultiheadAttention, where true = ignore, as Mask::keep.
/// Returns [batch, 1, 1, kv_len].
Tensor<bool, 4> keep_from_key_padding_mask(TensorView<const bool, 2> key_padding_mask);

/// The mean over the heads, which is what nn.MultiheadAttention returns unless told otherwise.
/// Shapes: attn_weights [batch, num_heads, q_len, kv_len], any strides. Returns [batch, q_len, kv_len].
/// Errors: std::invalid_argument if there are no heads.
Tensor<float, 3> average_heads(CView<4> attn_weights);

/// valid_lens [batch] or [batch, q_len] as d2l takes them, where a length beyond the end means all keys and a negative
/// one means none. (d2l then spreads the weight of a query without keys over all of them; here it is 0.)
template <int Rank>
Tensor<Index, Rank> clamp_valid_lens(TensorView<const Index, Rank> valid_lens, Index kv_len) requires(Rank <= 2) {
  Tensor<Index, Rank> result(valid_lens.shape());
  const TensorView<const Index, 2> from(valid_lens);
  Index* to = result.data();
  for (Index b = 0; b < from.shape(0); ++b)
    for (Index i = 0; i < from.shape(1); ++i) *to++ = std::clamp<Index>(from(b, i), 0, kv_len);
  return result;
}

}  // namespace qkv
