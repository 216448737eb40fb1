#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "support/random.h"
#include "support/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/math_test.cc"
#include "qkv/kernels/simd_targets.h"
// simd_targets.h comes first.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "qkv/kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels {
namespace HWY_NAMESPACE {

// The function at each of `count` places, in place; count is a multiple of every vector length.
void evaluate(int function, float* values, Index count) {
  const F32 d;
  for (Index n = 0; n < count; n += kLanes) {
    const auto x = hn::LoadU(d, values + n);
    const auto y = function == 0 ? exp2_or_zero(d, x) : function == 1 ? tanh(d, x) : erf(d, x);
    hn::StoreU(y, d, values + n);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace qkv::kernels {

HWY_EXPORT(evaluate);

namespace {

constexpr int kExp2 = 0, kTanh = 1, kErf = 2;
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> evaluate_all(int function, std::vector<float> values) {
  const std::size_t count = values.size();
  values.resize((count + 15) / 16 * 16, 0.0f);
  HWY_DYNAMIC_DISPATCH(evaluate)(function, values.data(), static_cast<Index>(values.size()));
  values.resize(count);
  return values;
}

std::vector<float> grid(float low, float high, int count) {
  std::vector<float> values;
  for (int n = 0; n <= count; ++n)
    values.push_back(low + (high - low) * static_cast<float>(n) / static_cast<float>(count));
  return values;
}

// Distance in units of the last place of the expected value.
double ulps(float got, double expected) {
  const float rounded = static_cast<float>(expected);
  return std::abs(got - expected) / (std::nextafter(std::abs(rounded), kInf) - std::abs(rounded));
}

class Math : public test::OnEveryTarget {};

TEST_P(Math, Exp2IsWithinItsStatedError) {
  const bool has_fma = GetParam() != "sse4" && GetParam() != "portable";
  const double bound = has_fma ? 1.0 : 1.2;
  const auto x = grid(-126, 20, 3000000);
  const auto y = evaluate_all(kExp2, x);
  for (std::size_t n = 0; n < x.size(); ++n) ASSERT_LT(ulps(y[n], std::exp2(static_cast<double>(x[n]))), bound) << x[n];
}

TEST_P(Math, Exp2IsExactWhereTheKernelsCountOnIt) {
  const auto y = evaluate_all(kExp2, {0, -0.0f, -kInf, -1e30f, -127, -126.6f, 1, -1, 8});
  EXPECT_EQ(y, (std::vector<float>{1, 1, 0, 0, 0, 0, 2, 0.5, 256}));
}

TEST_P(Math, KeepsNaNWhateverItsPayload) {
  test::Random random(3);
  std::vector<float> x;
  for (int n = 0; n < 4096; ++n) {
    const auto payload = static_cast<std::uint32_t>(random.below(1 << 22));
    x.push_back(std::bit_cast<float>((n % 2 ? 0xffc00000u : 0x7fc00000u) | payload));
  }
  for (int function : {kExp2, kTanh, kErf})
    for (float y : evaluate_all(function, x)) ASSERT_TRUE(std::isnan(y)) << function;
}

TEST_P(Math, TanhIsWithinThreeUlps) {
  for (float scale : {1e-30f, 1e-3f, 1.0f, 12.0f}) {
    const auto x = grid(-scale, scale, 100001);
    const auto y = evaluate_all(kTanh, x);
    for (std::size_t n = 0; n < x.size(); ++n) ASSERT_LT(ulps(y[n], std::tanh(static_cast<double>(x[n]))), 3) << x[n];
  }
  EXPECT_EQ(evaluate_all(kTanh, {0, kInf, -kInf, 1e30f}), (std::vector<float>{0, 1, -1, 1}));
}

TEST_P(Math, ErfIsWithinItsStatedError) {
  const auto x = grid(-6, 6, 300001);
  const auto y = evaluate_all(kErf, x);
  for (std::size_t n = 0; n < x.size(); ++n) ASSERT_NEAR(y[n], std::erf(static_cast<double>(x[n])), 1.2e-7) << x[n];
  EXPECT_EQ(evaluate_all(kErf, {0, kInf, -kInf, 1e30f}), (std::vector<float>{0, 1, -1, 1}));
}

INSTANTIATE_TEST_SUITE_P(Targets, Math, testing::ValuesIn(supported_targets()), test::OnEveryTarget::name);

}  // namespace
}  // namespace qkv::kernels

#endif  // HWY_ONCE
