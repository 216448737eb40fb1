#pragma once

#include <algorithm>
#include <utility>

#include "qkv/core/aligned_buffer.h"
#include "qkv/core/check.h"
#include "qkv/core/tensor_view.h"

namespace qkv {

/// Owns a packed row-major tensor, aligned. Moves; a copy is spelled copy(). A default-constructed one is empty.
template <class T, int Rank>
class Tensor {
 public:
  /// Empty: every length is 0.
  Tensor() = default;
  /// Leaves `other` empty.
  Tensor(Tensor&& other) noexcept : shape_(std::exchange(other.shape_, {})), buffer_(std::move(other.buffer_)) {}
  /// Leaves `other` empty.
  Tensor& operator=(Tensor&& other) noexcept {
    shape_ = std::exchange(other.shape_, {});
    buffer_ = std::move(other.buffer_);
    return *this;
  }
  /// Uninitialised. Errors: std::invalid_argument for a negative length or a size beyond 2^63 bytes; std::bad_alloc.
  explicit Tensor(const Shape<Rank>& shape) : shape_(shape), buffer_(checked_size(shape)) {}
  /// Every element is `fill`. Errors: as above.
  Tensor(const Shape<Rank>& shape, T fill) : Tensor(shape) { std::fill_n(data(), size(), fill); }

  /// The first element; null where there is none.
  /// @{
  T* data() { return buffer_.data(); }
  const T* data() const { return buffer_.data(); }
  /// @}
  /// The length of every axis.
  const Shape<Rank>& shape() const { return shape_; }
  /// The length of one axis.
  Index shape(int axis) const { return shape_[axis]; }
  /// Number of elements.
  Index size() const { return buffer_.size(); }
  /// Whether there are no elements.
  bool empty() const { return size() == 0; }

  /// All of it, borrowed. Where a view is expected, the tensor itself will do.
  /// @{
  TensorView<T, Rank> view() { return {data(), shape_}; }
  TensorView<const T, Rank> view() const { return {data(), shape_}; }
  operator TensorView<T, Rank>() { return view(); }              // NOLINT(google-explicit-constructor)
  operator TensorView<const T, Rank>() const { return view(); }  // NOLINT(google-explicit-constructor)
  /// @}

  /// The element at one index per axis, as in TensorView.
  /// @{
  template <class... Indices>
  T& operator()(Indices... indices) {
    return view()(indices...);
  }
  template <class... Indices>
  const T& operator()(Indices... indices) const {
    return view()(indices...);
  }
  /// @}

  /// A tensor of its own with the same elements.
  Tensor copy() const {
    Tensor result(shape_);
    std::copy_n(data(), size(), result.data());
    return result;
  }

 private:
  static Index checked_size(const Shape<Rank>& shape) {
    Index size = 1;
    for (Index length : shape) {
      check(length >= 0, "Tensor", "shape", length, ">= 0");
      const auto product = checked_multiply(size, length);
      if (!product || !checked_multiply(*product, sizeof(T)))
        throw_invalid("Tensor", "shape (too large)", to_string<Rank>(shape), "a size in bytes below 2^63");
      size = *product;
    }
    return size;
  }

  Shape<Rank> shape_{};
  AlignedBuffer<T> buffer_;
};

}  // namespace qkv
