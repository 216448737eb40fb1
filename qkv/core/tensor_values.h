#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "qkv/core/aligned_buffer.h"
#include "qkv/core/index.h"

namespace qkv {

/// Files with more axes than this are refused: a shape is then never what takes the memory.
inline constexpr std::size_t kMaxRank = 64;

/// A tensor whose rank is known only at run time: packed, row-major. Rank 0 is one value.
template <class T>
struct TensorValues {
  std::vector<Index> shape;  ///< the length of every axis
  AlignedBuffer<T> values;   ///< as many as the product of the lengths
};

/// Tensors by name: what a file of weights holds, and what the layers of a model are filled from.
using StateDict = std::map<std::string, TensorValues<float>>;

/// The product of the lengths (1 for rank 0), or nothing where it does not fit.
inline std::optional<Index> checked_num_elements(std::span<const Index> shape) {
  std::optional<Index> count = 1;
  for (Index length : shape) {
    if (count) count = checked_multiply(*count, length);
  }
  return count;
}

/// A shape as text, for messages: "[2, 8, 16, 64]".
inline std::string to_string(std::span<const Index> shape) {
  std::string text = "[";
  for (std::size_t axis = 0; axis < shape.size(); ++axis) text += (axis ? ", " : "") + std::to_string(shape[axis]);
  return text + "]";
}

}  // namespace qkv
