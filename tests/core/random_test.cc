#include "qkv/core/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace qkv {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known answers that the authors of Philox publish with their code (Random123, kat_vectors).
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32<7>({0, 0, 0, 0}, {0, 0}), (Words{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, FollowsItsPublishedLayout) {
  const std::uint64_t seed = 0x0123456789abcdef, stream = 0xfedcba9876543210;
  RandomStream random(seed, stream);
  for (std::uint32_t n = 0; n < 13; ++n) {
    const Words block = philox4x32({n / 4, 0, 0x76543210, 0xfedcba98}, {0x89abcdef, 0x01234567});
    EXPECT_EQ(random.bits(), block[n % 4]) << "number " << n;
  }
}

TEST(RandomStream, RepeatsForTheSameSeedAndDiffersForAnother) {
  const auto first = [](RandomStream random) { return random.bits(); };
  EXPECT_EQ(first(RandomStream(7)), first(RandomStream(7, 0)));
  const std::uint64_t high = std::uint64_t{1} << 32;
  const std::set<std::uint32_t> all{first(RandomStream(0)),    first(RandomStream(1)),       first(RandomStream(high)),
                                    first(RandomStream(0, 1)), first(RandomStream(0, high)), first(RandomStream(1, 1))};
  EXPECT_EQ(all.size(), 6u);
}

TEST(RandomStream, UniformTakesTheUpperBits) {
  RandomStream bits(3), uniform(3);
  for (int n = 0; n < 100; ++n) EXPECT_EQ(uniform.uniform(), static_cast<float>(bits.bits() / 256) / 16777216.f);
}

// 2^20 numbers in 64 cells: chi^2 has mean 63 and standard deviation 11.2. The sequence is fixed, so no run is unlucky.
TEST(RandomStream, UniformFillsTheUnitIntervalEvenly) {
  constexpr int kCount = 1 << 20, kCells = 64;
  RandomStream random(1);
  std::vector<double> cells(kCells);
  double sum = 0, products = 0, last = 0;
  for (int n = 0; n < kCount; ++n) {
    const double u = random.uniform();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    ++cells[static_cast<std::size_t>(u * kCells)];
    sum += u;
    products += (u - 0.5) * (last - 0.5);
    last = u;
  }
  double chi2 = 0;
  for (double cell : cells) chi2 += std::pow(cell - kCount / kCells, 2) / (kCount / kCells);
  EXPECT_GT(chi2, 63 - 4 * 11.2);
  EXPECT_LT(chi2, 63 + 4 * 11.2);
  EXPECT_NEAR(sum / kCount, 0.5, 4 * std::sqrt(1.0 / 12 / kCount));
  EXPECT_NEAR(products / kCount, 0, 4.0 / 12 / std::sqrt(kCount));  // neighbours are not correlated
}

}  // namespace
}  // namespace qkv
