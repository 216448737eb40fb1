#pragma once

#include <array>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <string>
#include <type_traits>

#include "qkv/core/check.h"
#include "qkv/core/index.h"

namespace qkv {

/// The length of every axis, first axis first.
template <int Rank>
using Shape = std::array<Index, Rank>;

/// The product of the lengths, which has to fit.
template <int Rank>
Index num_elements(const Shape<Rank>& shape) {
  Index count = 1;
  for (Index length : shape) count *= length;
  return count;
}

/// Strides, in elements, of a row-major tensor without gaps.
template <int Rank>
Shape<Rank> packed_strides(const Shape<Rank>& shape) {
  Shape<Rank> strides{};
  Index stride = 1;
  for (int axis = Rank - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return strides;
}

/// Borrows a strided tensor: a pointer, a shape, and strides that count elements (0 and negative are fine).
/// Passed by value. Every member function rearranges shape and strides only; no element is copied or touched.
///
///   auto heads = x.split_axis(2, head_dim).swap_axes(1, 2);   // [batch, len, heads*dim] -> [batch, heads, len, dim]
template <class T, int Rank>
class TensorView {
  static_assert(Rank >= 1);

 public:
  using Element = T;                  ///< const where elements may only be read
  static constexpr int kRank = Rank;  ///< number of axes

  /// A packed row-major tensor. Errors, here and below: std::invalid_argument for a negative length.
  TensorView(T* data, const Shape<Rank>& shape) : TensorView(data, shape, packed_strides<Rank>(shape)) {}
  /// Element (i, j, ...) is data[i * strides[0] + j * strides[1] + ...].
  TensorView(T* data, const Shape<Rank>& shape, const Shape<Rank>& strides)
      : data_(data), shape_(shape), strides_(strides) {
    for (int axis = 0; axis < Rank; ++axis) check(shape[axis] >= 0, "TensorView", "shape", shape[axis], ">= 0");
  }

  /// A view of mutable elements reads as a view of const ones.
  template <class U>
  requires(std::same_as<const U, T> && !std::same_as<U, T>)
      TensorView(const TensorView<U, Rank>& other)  // NOLINT(google-explicit-constructor)
      : TensorView(other.data(), other.shape(), other.strides()) {}

  /// A view of lower rank reads as one with leading axes of 1: [q_len, head_dim] as [1, 1, q_len, head_dim].
  template <class U, int LowerRank>
  requires(LowerRank < Rank && (std::same_as<U, T> || std::same_as<const U, T>))
      TensorView(const TensorView<U, LowerRank>& other)  // NOLINT(google-explicit-constructor)
      : data_(other.data()) {
    constexpr int kAdded = Rank - LowerRank;
    for (int axis = 0; axis < Rank; ++axis) {
      shape_[axis] = axis < kAdded ? 1 : other.shape(axis - kAdded);
      strides_[axis] = axis < kAdded ? 0 : other.stride(axis - kAdded);
    }
  }

  /// The element whose indices are all 0.
  T* data() const { return data_; }
  /// The length of every axis.
  const Shape<Rank>& shape() const { return shape_; }
  /// The stride of every axis, in elements.
  const Shape<Rank>& strides() const { return strides_; }
  /// The length of one axis.
  Index shape(int axis) const { return shape_[axis]; }
  /// The stride of one axis, in elements.
  Index stride(int axis) const { return strides_[axis]; }
  /// Number of elements.
  Index size() const { return num_elements<Rank>(shape_); }

  /// The element at one index per axis. Bounds are the caller's affair (asserted in debug builds).
  template <std::convertible_to<Index>... Indices>
  requires(sizeof...(Indices) == Rank) T& operator()(Indices... indices) const {
    // Step by step: from one sum of products GCC makes vectors, which at four terms take longer than the terms.
    T* element = data_;
    int axis = 0;
    const auto step = [&](Index index) {
      assert(index >= 0 && index < shape_[axis]);
      element += index * strides_[axis++];
    };
    (step(static_cast<Index>(indices)), ...);
    return *element;
  }

  /// Whether the elements lie in row-major order without gaps (axes of length 0 or 1 may have any stride).
  bool is_packed() const {
    if (size() == 0) return true;
    Index expected = 1;
    for (int axis = Rank - 1; axis >= 0; --axis) {
      if (shape_[axis] != 1 && strides_[axis] != expected) return false;
      expected *= shape_[axis];
    }
    return true;
  }

  /// Splits one axis of length n into two, [n / inner, inner].
  /// Errors: std::invalid_argument if inner does not divide n.
  TensorView<T, Rank + 1> split_axis(int axis, Index inner) const {
    check_axis("split_axis", axis);
    if (inner <= 0 || shape_[axis] % inner != 0)
      throw_invalid("split_axis", "inner", inner, "a divisor of " + std::to_string(shape_[axis]));
    Shape<Rank + 1> shape{}, strides{};
    for (int from = 0, to = 0; from < Rank; ++from, ++to) {
      shape[to] = shape_[from];
      strides[to] = strides_[from];
      if (from != axis) continue;
      shape[to] = shape_[from] / inner;
      strides[to] = strides_[from] * inner;
      ++to;
      shape[to] = inner;
      strides[to] = strides_[from];
    }
    return {data_, shape, strides};
  }

  /// Exchanges two axes.
  /// Errors of this and the next two: std::invalid_argument for an axis or index that the view does not have.
  TensorView swap_axes(int a, int b) const {
    check_axis("swap_axes", a);
    check_axis("swap_axes", b);
    TensorView result = *this;
    std::swap(result.shape_[a], result.shape_[b]);
    std::swap(result.strides_[a], result.strides_[b]);
    return result;
  }

  /// Indices begin .. end-1 of one axis.
  TensorView slice(int axis, Index begin, Index end) const {
    check_axis("slice", axis);
    check(begin >= 0 && begin <= end, "slice", "begin", begin, "0 <= begin <= end");
    if (end > shape_[axis]) throw_invalid("slice", "end", end, "at most " + std::to_string(shape_[axis]));
    TensorView result = *this;
    result.data_ += begin * strides_[axis];
    result.shape_[axis] = end - begin;
    return result;
  }

  /// One index of an axis; the axis goes away.
  TensorView<T, Rank - 1> select(int axis, Index index) const requires(Rank > 1) {
    check_axis("select", axis);
    if (index < 0 || index >= shape_[axis])
      throw_invalid("select", "index", index, "0 <= index < " + std::to_string(shape_[axis]));
    Shape<Rank - 1> shape{}, strides{};
    for (int from = 0, to = 0; from < Rank; ++from) {
      if (from == axis) continue;
      shape[to] = shape_[from];
      strides[to++] = strides_[from];
    }
    return {data_ + index * strides_[axis], shape, strides};
  }

 private:
  static void check_axis(const char* function, int axis) {
    check(axis >= 0 && axis < Rank, function, "axis", axis, "0 <= axis < rank");
  }

  T* data_;
  Shape<Rank> shape_{};
  Shape<Rank> strides_{};
};

/// A view whose elements may only be read.
template <class T, int Rank>
using ConstTensorView = TensorView<const T, Rank>;

/// Floats to be written: the views that nearly everything takes.
template <int Rank>
using View = TensorView<float, Rank>;
/// Floats to be read.
template <int Rank>
using CView = TensorView<const float, Rank>;

/// A shape as text, for messages: "[2, 8, 16, 64]".
template <int Rank>
std::string to_string(const Shape<Rank>& shape) {
  std::string text = "[";
  for (int axis = 0; axis < Rank; ++axis) text += (axis ? ", " : "") + std::to_string(shape[axis]);
  return text + "]";
}

}  // namespace qkv
