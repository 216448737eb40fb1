#pragma once

#include <string>
#include <vector>

#include "qkv/core/tensor_values.h"

namespace qkv::cli {

// Tensors named on the command line: a .npy file, or FILE.safetensors:NAME.
// Errors of every function: CommandError (kInput) that names the operand.

/// Floats of any kind, as T: float or double.
template <class T>
TensorValues<T> load_floats(const std::string& operand);
template <>
TensorValues<float> load_floats(const std::string& operand);
template <>
TensorValues<double> load_floats(const std::string& operand);

/// Whole numbers of any kind.
TensorValues<Index> load_integers(const std::string& operand);

/// bool, or whole numbers that are all 0 or 1.
TensorValues<bool> load_booleans(const std::string& operand);

/// The shape with leading axes of 1, four axes in all. Errors: CommandError (kInput) unless it has least_rank to 4
/// axes.
std::vector<Index> with_leading_ones(const std::string& operand, const std::vector<Index>& shape,
                                     std::size_t least_rank);

}  // namespace qkv::cli
