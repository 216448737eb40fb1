#pragma once

#include <algorithm>
#include <limits>

#include "qkv/core/aligned_buffer.h"
#include "qkv/core/tensor_view.h"

namespace qkv::test {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// How the elements of a [batch, heads, len, dim] tensor lie in memory.
enum class Layout {
  kPacked,          // [batch, heads, len, dim]
  kInterleaved,     // [batch, len, heads, dim]: what a linear layer returns
  kCacheSlice,      // a slice of [batch, heads, capacity, dim + 3]: gaps after every row and head
  kBroadcastBatch,  // every batch entry is the same memory (stride 0)
};

/// A tensor whose memory, everything around and between its rows included, starts out as NaN: whoever reads an element
/// that does not belong to the tensor spoils the result.
template <class T>
class BasicPoisonedTensor {
 public:
  BasicPoisonedTensor(const Shape<4>& shape, Layout layout) : view_(nullptr, shape) {
    constexpr Index kMargin = 64;
    const auto [batch, heads, len, dim] = shape;
    Shape<4> strides = packed_strides<4>(shape);
    if (layout == Layout::kInterleaved) strides = {len * heads * dim, dim, heads * dim, 1};
    if (layout == Layout::kCacheSlice) {
      const Index row = dim + 3, capacity = len + 5;
      strides = {heads * capacity * row, capacity * row, row, 1};
    }
    const Index span = std::max<Index>(1, batch) * std::max({strides[0], Index{1}, heads * strides[1]}) + kMargin;
    if (layout == Layout::kBroadcastBatch) strides[0] = 0;
    buffer_ = AlignedBuffer<T>(span + 2 * kMargin);
    std::fill_n(buffer_.data(), buffer_.size(), std::numeric_limits<T>::quiet_NaN());
    // Not a multiple of the vector length: nothing may count on aligned inputs.
    view_ = {buffer_.data() + kMargin + 1, shape, strides};
  }

  TensorView<T, 4> view() const { return view_; }

 private:
  AlignedBuffer<T> buffer_;
  TensorView<T, 4> view_;
};

using PoisonedTensor = BasicPoisonedTensor<float>;

}  // namespace qkv::test
