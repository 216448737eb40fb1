#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>
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

template <class T, class Function>
void apply(const Function& function, T* values, Index count) {
  const Tag<T> d;
  for (Index n = 0; n < count; n += kLanes<T>) hn::StoreU(function(d, hn::LoadU(d, values + n)), d, values + n);
}

// The function at each of `count` places, in place; count is a multiple of every vector length.
void evaluate(int function, float* values, Index count) {
  apply([=](auto d, auto x) { return function == 0   ? exp2_or_zero(d, x)
                                     : function == 1 ? tanh(d, x)
                                                     : erf(d, x); },
        values, count);
}

void evaluate_double(int function, double* values, Index count) {
  apply([=](auto d, auto x) { return function == 0 ? exp2_or_zero(d, x) : tanh(d, x); }, values, count);
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace qkv::kernels {

HWY_EXPORT(evaluate);
HWY_EXPORT(evaluate_double);

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

std::vector<double> evaluate_all(int function, std::vector<double> values) {
  const std::size_t count = values.size();
  values.resize((count + 15) / 16 * 16, 0.0);
  HWY_DYNAMIC_DISPATCH(evaluate_double)(function, values.data(), static_cast<Index>(values.size()));
  values.resize(count);
  return values;
}

template <class T>
std::vector<T> grid(T low, T high, int count) {
  std::vector<T> values;
  for (int n = 0; n <= count; ++n) values.push_back(low + (high - low) * static_cast<T>(n) / static_cast<T>(count));
  return values;
}

// Distance in units of the last place of the expected value, which is of a wider type.
template <class T, class Wide>
double ulps(T got, Wide expected) {
  const T rounded = static_cast<T>(expected);
  const T unit = std::nextafter(std::abs(rounded), std::numeric_limits<T>::infinity()) - std::abs(rounded);
  return static_cast<double>(std::abs(got - expected) / unit);
}

class Math : public test::OnEveryTarget {};

// What math-inl.h says, in ulp.
double exp2_bound(std::string_view target) {
  if (target == "avx512") return 1.1;
  return target == "sse4" || target == "portable" ? 1.2 : 1.0;  // without FMA, or with
}

TEST_P(Math, Exp2IsWithinItsStatedError) {
  const double bound = exp2_bound(GetParam());
  const auto x = grid(-126.0f, 127.0f, 5000000);
  const auto y = evaluate_all(kExp2, x);
  for (std::size_t n = 0; n < x.size(); ++n) ASSERT_LT(ulps(y[n], std::exp2(static_cast<double>(x[n]))), bound) << x[n];
}

TEST_P(Math, Exp2IsExactWhereTheKernelsCountOnIt) {
  const auto y = evaluate_all(
      kExp2, std::vector<float>{0, -0.0f, -kInf, -1e30f, -127, std::nextafter(-126.0f, -kInf), -126, 1, -1, 8});
  EXPECT_EQ(y, (std::vector<float>{1, 1, 0, 0, 0, 0, 0x1p-126f, 2, 0.5, 256}));
}

TEST_P(Math, Exp2InDoubleIsWithinTheSameError) {
  const double bound = exp2_bound(GetParam());
  for (const auto& [low, high] : {std::pair{-1022.0, 1023.0}, {-2.0, 20.0}}) {
    const auto x = grid(low, high, 1000000);
    const auto y = evaluate_all(kExp2, x);
    for (std::size_t n = 0; n < x.size(); ++n)
      ASSERT_LT(ulps(y[n], std::exp2(static_cast<long double>(x[n]))), bound) << x[n];
  }
  EXPECT_EQ(evaluate_all(kExp2, std::vector<double>{0, -0.0, -kInf, -1e300, -1023, -1022.1, -1022, 1, -1, 8}),
            (std::vector<double>{1, 1, 0, 0, 0, 0, 0x1p-1022, 2, 0.5, 256}));
  EXPECT_TRUE(std::isnan(evaluate_all(kExp2, std::vector<double>{std::nan("")})[0]));
}

TEST_P(Math, TanhInDoubleIsWithinThreeUlps) {
  for (double scale : {1e-200, 1e-3, 1.0, 25.0}) {
    const auto x = grid(-scale, scale, 100001);
    const auto y = evaluate_all(kTanh, x);
    for (std::size_t n = 0; n < x.size(); ++n)
      ASSERT_LT(ulps(y[n], std::tanh(static_cast<long double>(x[n]))), 3) << x[n];
  }
  EXPECT_EQ(evaluate_all(kTanh, std::vector<double>{0, kInf, -kInf, 1e300}), (std::vector<double>{0, 1, -1, 1}));
  EXPECT_TRUE(std::isnan(evaluate_all(kTanh, std::vector<double>{std::nan("")})[0]));
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
  EXPECT_EQ(evaluate_all(kTanh, std::vector<float>{0, kInf, -kInf, 1e30f}), (std::vector<float>{0, 1, -1, 1}));
}

TEST_P(Math, ErfIsWithinItsStatedError) {
  const auto x = grid(-6.0f, 6.0f, 300001);
  const auto y = evaluate_all(kErf, x);
  for (std::size_t n = 0; n < x.size(); ++n) ASSERT_NEAR(y[n], std::erf(static_cast<double>(x[n])), 1.2e-7) << x[n];
  EXPECT_EQ(evaluate_all(kErf, std::vector<float>{0, kInf, -kInf, 1e30f}), (std::vector<float>{0, 1, -1, 1}));
}

INSTANTIATE_TEST_SUITE_P(Targets, Math, testing::ValuesIn(supported_targets()), test::OnEveryTarget::name);

}  // namespace
}  // namespace qkv::kernels

#endif  // HWY_ONCE
