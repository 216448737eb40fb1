#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "qkv/core/aligned_buffer.h"
#include "qkv/core/index.h"

namespace qkv {

/// The formats of real numbers that files hold.
enum class FloatFormat { kF16, kBf16, kF32, kF64 };

/// One number at any address, aligned or not, in the given byte order.
template <class T>
T load_number(const std::byte* from, std::endian order) {
  std::array<std::byte, sizeof(T)> bytes;
  std::memcpy(bytes.data(), from, sizeof(T));
  if (order != std::endian::native) std::reverse(bytes.begin(), bytes.end());
  return std::bit_cast<T>(bytes);
}

/// The value of an IEEE half-precision number, exactly; subnormals, infinities and NaN (with its payload) included.
float f32_from_f16(std::uint16_t bits);

/// The value of a bfloat16 number, exactly.
float f32_from_bf16(std::uint16_t bits);

/// Reads out.size() packed numbers that begin at `from`, at any alignment.
/// Edge: F64 as float is rounded to nearest, ties to even; beyond the range of float it becomes an infinity. Everything else is
/// exact.
/// @{
void convert_floats(FloatFormat format, std::endian order, const std::byte* from, std::span<float> out);
void convert_floats(FloatFormat format, std::endian order, const std::byte* from, std::span<double> out);
/// @}

/// The formats of whole numbers that files hold. A bool is a byte that is 0 or 1.
struct IntegerFormat {
  /// What the bits mean.
  enum class Kind { kBool, kSigned, kUnsigned };
  Kind kind;    ///< Two's complement if signed.
  Index bytes;  ///< 1, 2, 4 or 8.
};

/// Packed whole numbers in a file, and what an error calls them.
struct StoredIntegers {
  IntegerFormat format;   ///< Of each number.
  std::endian order;      ///< Of the bytes of each number.
  const std::byte* from;  ///< At any alignment.
  Index count;            ///< How many numbers.
  std::string function;   ///< Who was asked: "NpyFile::to_index".
  std::string name;       ///< What they are: the path of the file, the tensor.
};

/// Errors: std::invalid_argument for a value >= 2^63.
AlignedBuffer<Index> convert_to_index(const StoredIntegers& stored);

/// Errors: std::invalid_argument for a value that is neither 0 nor 1.
AlignedBuffer<bool> convert_to_bool(const StoredIntegers& stored);

}  // namespace qkv
