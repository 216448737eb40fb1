#include "qkv/io/convert.h"

#include <limits>

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

template <class Stored, class Convert>
void convert_each(std::endian order, const std::byte* from, std::span<float> out, Convert convert) {
  for (float& value : out) {
    value = convert(load_number<Stored>(from, order));
    from += sizeof(Stored);
  }
}

}  // namespace

void convert_to_f32(FloatFormat format, std::endian order, const std::byte* from, std::span<float> out) {
  if (out.empty()) return;
  switch (format) {
    case FloatFormat::kF16:
      return convert_each<std::uint16_t>(order, from, out, f32_from_f16);
    case FloatFormat::kBf16:
      return convert_each<std::uint16_t>(order, from, out, f32_from_bf16);
    case FloatFormat::kF32:
      if (order == std::endian::native) {
        std::memcpy(out.data(), from, out.size_bytes());
        return;
      }
      return convert_each<float>(order, from, out, [](float value) { return value; });
    case FloatFormat::kF64:
      return convert_each<double>(order, from, out, [](double value) { return static_cast<float>(value); });
  }
}

}  // namespace qkv
