#include "qkv/io/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/io/file_support.h"

namespace qkv {
namespace {

using testing::little_endian;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> convert(FloatFormat format, const std::string& bytes, std::size_t count,
                           std::endian order = std::endian::little) {
  std::vector<float> out(count);
  convert_floats(format, order, reinterpret_cast<const std::byte*>(bytes.data()), out);
  return out;
}

// The definition of the format, for every number that is not infinite or NaN.
float f16_by_definition(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return static_cast<float>(bits & 0x8000 ? -magnitude : magnitude);
}

TEST(ConvertF16, IsExactForEveryFiniteNumber) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    if (((bits >> 10) & 31) == 31) continue;
    const float got = f32_from_f16(static_cast<std::uint16_t>(bits));
    const float expected = f16_by_definition(static_cast<std::uint16_t>(bits));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(expected)) << "bits " << bits;
  }
}

TEST(ConvertF16, KeepsInfinitiesAndNaN) {
  EXPECT_EQ(f32_from_f16(0x7c00), kInfinity);
  EXPECT_EQ(f32_from_f16(0xfc00), -kInfinity);
  for (std::uint16_t bits : {0x7c01, 0x7e00, 0x7fff, 0xfe00}) EXPECT_TRUE(std::isnan(f32_from_f16(bits))) << bits;
}

TEST(ConvertBf16, IsTheUpperHalfOfAFloat) {
  EXPECT_EQ(f32_from_bf16(0x3f80), 1.f);
  EXPECT_EQ(f32_from_bf16(0xc049), -3.140625f);
  EXPECT_EQ(f32_from_bf16(0x0001), std::ldexp(1.f, -133));
  EXPECT_EQ(f32_from_bf16(0x7f80), kInfinity);
  EXPECT_TRUE(std::isnan(f32_from_bf16(0x7fc0)));
  EXPECT_TRUE(std::signbit(f32_from_bf16(0x8000)));
}

TEST(ConvertF64, RoundsToNearestWithTiesToEven) {
  const double step = std::ldexp(1., -23);  // between neighbouring floats from 1 to 2
  const std::vector<double> values{1 + step / 2, 1 + 3 * step / 2, 1 + step * 0.501, 1 + step * 0.499};
  EXPECT_EQ(convert(FloatFormat::kF64, little_endian(values), 4),
            (std::vector<float>{1, 1 + 2 * static_cast<float>(step), 1 + static_cast<float>(step), 1}));
}

TEST(ConvertF64, OverflowsToInfinityAndUnderflowsToSubnormalsAndZero) {
  const std::vector<double> values{1e300, -1e300, 3.4028234663852886e38, 1e-45, 1e-46, -1e-300};
  const auto got = convert(FloatFormat::kF64, little_endian(values), values.size());
  EXPECT_EQ(got[0], kInfinity);
  EXPECT_EQ(got[1], -kInfinity);
  EXPECT_EQ(got[2], std::numeric_limits<float>::max());
  EXPECT_EQ(got[3], std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(got[4], 0.f);
  EXPECT_TRUE(got[5] == 0.f && std::signbit(got[5]));
}

TEST(ConvertF64, KeepsNaNAndInfinity) {
  const auto got = convert(FloatFormat::kF64, little_endian(std::vector<double>{std::nan(""), -kInfinity}), 2);
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_EQ(got[1], -kInfinity);
}

TEST(Convert, ReadsAtAnyAlignment) {
  const std::string values = little_endian(std::vector<float>{1.5f, -2.25f, 1e30f});
  for (std::size_t shift = 0; shift < 8; ++shift) {
    const std::string padded = std::string(shift, 'x') + values;
    EXPECT_EQ(convert(FloatFormat::kF32, padded.substr(shift), 3), (std::vector<float>{1.5f, -2.25f, 1e30f}));
    std::vector<float> out(3);
    convert_floats(FloatFormat::kF32, std::endian::little, reinterpret_cast<const std::byte*>(padded.data()) + shift,
                   out);
    EXPECT_EQ(out, (std::vector<float>{1.5f, -2.25f, 1e30f})) << "shift " << shift;
  }
}

TEST(Convert, ReadsBigEndianNumbers) {
  EXPECT_EQ(convert(FloatFormat::kF32, std::string("\x3f\xc0\0\0", 4), 1, std::endian::big)[0], 1.5f);
  EXPECT_EQ(convert(FloatFormat::kF16, std::string("\x3e\0", 2), 1, std::endian::big)[0], 1.5f);
  EXPECT_EQ(convert(FloatFormat::kF64, std::string("\x3f\xf8\0\0\0\0\0\0", 8), 1, std::endian::big)[0], 1.5f);
}

}  // namespace
}  // namespace qkv
