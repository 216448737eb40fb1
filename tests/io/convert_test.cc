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

template <class T = float>
std::vector<T> convert(FloatFormat format, const std::string& bytes, std::size_t count,
                       std::endian order = std::endian::little) {
  std::vector<T> out(count);
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

// The same numbers as double, from either byte order.
void expect_doubles(FloatFormat format, const std::string& little, std::size_t width,
                    const std::vector<double>& expected) {
  std::string big;
  for (std::size_t at = 0; at < little.size(); at += width) {
    const std::string number = little.substr(at, width);
    big.append(number.rbegin(), number.rend());
  }
  EXPECT_EQ(convert<double>(format, little, expected.size(), std::endian::little), expected);
  EXPECT_EQ(convert<double>(format, big, expected.size(), std::endian::big), expected);
}

TEST(ConvertToDouble, IsExactForEveryFormatAndByteOrder) {
  expect_doubles(FloatFormat::kF16, little_endian(std::vector<std::uint16_t>{0x3e00, 0xc001, 0x0001, 0x7c00}), 2,
                 {1.5, -2 - 0x1p-9, 0x1p-24, kInfinity});
  expect_doubles(FloatFormat::kBf16, little_endian(std::vector<std::uint16_t>{0x3f80, 0xc049, 0x0001, 0xff80}), 2,
                 {1, -3.140625, 0x1p-133, -kInfinity});
  expect_doubles(FloatFormat::kF32, little_endian(std::vector<float>{0.1f, -3e38f, 0x1p-149f}), 4,
                 {0.1f, -3e38f, 0x1p-149});
  expect_doubles(FloatFormat::kF64, little_endian(std::vector<double>{0.1, -1e308, 5e-324, -kInfinity}), 8,
                 {0.1, -1e308, 5e-324, -kInfinity});
}

TEST(ConvertToDouble, KeepsNaN) {
  const auto is_nan = [](FloatFormat format, const std::string& bytes) {
    return std::isnan(convert<double>(format, bytes, 1)[0]);
  };
  EXPECT_TRUE(is_nan(FloatFormat::kF16, little_endian(std::uint16_t{0x7e00})));
  EXPECT_TRUE(is_nan(FloatFormat::kBf16, little_endian(std::uint16_t{0x7fc0})));
  EXPECT_TRUE(is_nan(FloatFormat::kF32, little_endian(std::nanf(""))));
  EXPECT_TRUE(is_nan(FloatFormat::kF64, little_endian(std::nan(""))));
}

}  // namespace
}  // namespace qkv
