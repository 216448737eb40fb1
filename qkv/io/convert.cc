#include "qkv/io/convert.h"

#include <limits>
#include <type_traits>
#include <utility>

#include "qkv/core/check.h"

namespace qkv {

// What the standard leaves open (narrowing a double beyond the range of float) IEEE 754 defines.
static_assert(std::numeric_limits<float>::is_iec559 && std::numeric_limits<double>::is_iec559);

float f32_from_f16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = (bits & 0x3ffu) << 13;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | mantissa);
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 127 - 15) << 23) | mantissa);
  // A subnormal is mantissa * 2^-24. As (1 + mantissa/1024) * 2^-14 - 2^-14 no operand is subnormal in float, so a
  // program that flushes subnormals to zero reads the same value.
  const float magnitude = std::bit_cast<float>(((127u - 14u) << 23) | mantissa) - 0x1p-14f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

float f32_from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

namespace {

template <class Stored, class T, class Convert>
void convert_each(std::endian order, const std::byte* from, std::span<T> out, Convert convert) {
  for (T& value : out) {
    value = convert(load_number<Stored>(from, order));
    from += sizeof(Stored);
  }
}

// Numbers stored as float or double.
template <class Stored, class T>
void copy_each(std::endian order, const std::byte* from, std::span<T> out) {
  if (std::is_same_v<Stored, T> && order == std::endian::native)
    std::memcpy(out.data(), from, out.size_bytes());
  else
    convert_each<Stored>(order, from, out, [](Stored value) { return static_cast<T>(value); });
}

template <class T>
void convert_all_floats(FloatFormat format, std::endian order, const std::byte* from, std::span<T> out) {
  if (out.empty()) return;
  switch (format) {
    case FloatFormat::kF16:
      return convert_each<std::uint16_t>(order, from, out, f32_from_f16);
    case FloatFormat::kBf16:
      return convert_each<std::uint16_t>(order, from, out, f32_from_bf16);
    case FloatFormat::kF32:
      return copy_each<float>(order, from, out);
    case FloatFormat::kF64:
      return copy_each<double>(order, from, out);
  }
}

}  // namespace

void convert_floats(FloatFormat format, std::endian order, const std::byte* from, std::span<float> out) {
  convert_all_floats(format, order, from, out);
}

void convert_floats(FloatFormat format, std::endian order, const std::byte* from, std::span<double> out) {
  convert_all_floats(format, order, from, out);
}

namespace {

template <class Stored, class T, class Convert>
AlignedBuffer<T> convert_all(const StoredIntegers& stored, Convert convert) {
  AlignedBuffer<T> result(stored.count);
  for (Index i = 0; i < stored.count; ++i) {
    result.data()[i] = convert(i, load_number<Stored>(stored.from + i * Index{sizeof(Stored)}, stored.order));
  }
  return result;
}

// Calls convert(place, value) for every number, with the value in the file's own type.
template <class T, class Convert>
AlignedBuffer<T> convert_integers(const StoredIntegers& stored, Convert convert) {
  const bool is_signed = stored.format.kind == IntegerFormat::Kind::kSigned;
  switch (stored.format.bytes) {
    case 1:
      return is_signed ? convert_all<std::int8_t, T>(stored, convert) : convert_all<std::uint8_t, T>(stored, convert);
    case 2:
      return is_signed ? convert_all<std::int16_t, T>(stored, convert) : convert_all<std::uint16_t, T>(stored, convert);
    case 4:
      return is_signed ? convert_all<std::int32_t, T>(stored, convert) : convert_all<std::uint32_t, T>(stored, convert);
    default:
      return is_signed ? convert_all<std::int64_t, T>(stored, convert) : convert_all<std::uint64_t, T>(stored, convert);
  }
}

// + shows a byte as a number.
template <class Stored>
[[noreturn]] void refuse(const StoredIntegers& stored, Index place, Stored value, const char* expected) {
  throw_invalid(stored.function, "value " + std::to_string(place) + " of " + stored.name, +value, expected);
}

}  // namespace

AlignedBuffer<Index> convert_to_index(const StoredIntegers& stored) {
  return convert_integers<Index>(stored, [&](Index i, auto value) {
    if (!std::in_range<Index>(value)) [[unlikely]]
      refuse(stored, i, value, "below 2^63");
    return static_cast<Index>(value);
  });
}

AlignedBuffer<bool> convert_to_bool(const StoredIntegers& stored) {
  return convert_integers<bool>(stored, [&](Index i, auto value) {
    if (value != 0 && value != 1) [[unlikely]]
      refuse(stored, i, value, "0 or 1");
    return value == 1;
  });
}

}  // namespace qkv
