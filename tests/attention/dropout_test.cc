#include <gtest/gtest.h>

#include <cmath>

#include "qkv/attention/attention.h"
#include "support/random.h"
#include "support/targets.h"

namespace qkv {
namespace {

// With V = identity, out holds the weights themselves.
class AttentionDropout : public test::OnEveryTarget {
 protected:
  static constexpr Index kLen = 200;
  test::Random random_{1};
  Tensor<float, 4> q_ = random_.tensor<4>({1, 2, kLen, 8}), k_ = random_.tensor<4>({1, 2, kLen, 8});
  Tensor<float, 4> identity_{{1, 2, kLen, kLen}, 0};

  void SetUp() override {
    OnEveryTarget::SetUp();
    for (Index h = 0; h < 2; ++h)
      for (Index j = 0; j < kLen; ++j) identity_(0, h, j, j) = 1;
  }
  AttentionResult run(Dropout dropout) const {
    return attention(q_, k_, identity_, {.dropout = dropout, .observe = {.attn_weights = true}});
  }
  double dropped_share(Dropout dropout) const {
    const auto r = run(dropout);
    Index dropped = 0;
    for (Index n = 0; n < r.out.size(); ++n) dropped += r.out.data()[n] == 0;
    return static_cast<double>(dropped) / static_cast<double>(r.out.size());
  }
};

TEST_P(AttentionDropout, DropsTheShareItIsToldAndScalesTheRest) {
  // 80000 weights: a share strays by more than five standard deviations once in a million seeds.
  for (double p : {0.1, 0.5, 0.9})
    ASSERT_NEAR(dropped_share({.p = p, .seed = 4}), p, 5 * std::sqrt(p * (1 - p) / 80000));
  const auto r = run({.p = 0.25, .seed = 9});
  for (Index n = 0; n < r.out.size(); ++n) {
    const float weight = r.attn_weights.data()[n] / 0.75f, out = r.out.data()[n];
    ASSERT_NEAR(out, out == 0 ? 0 : weight, 1e-6f);
  }
}

// The layout that DropoutBits states, from the known answer of philox4x32<7>({0, 0, 0, 0}, {0, 0}): words 5f6fb709, 0d893f64, 4f121f81, 4f730a48,
// so the 16-bit numbers of query 0, head 0 and keys 0 to 7 are b709, 5f6f, 3f64, 0d89, 1f81, 4f12, 0a48, 4f73.
TEST_P(AttentionDropout, FollowsItsPublishedLayout) {
  const auto r = run({.p = 0x4000 / 65536.0, .seed = 0});  // drops what is below 4000
  const bool dropped[] = {false, false, true, true, true, false, true, false};
  for (Index j = 0; j < 8; ++j) ASSERT_EQ(r.out(0, 0, 0, j) == 0, dropped[j]) << j;
}

TEST_P(AttentionDropout, DropsNothingAtZeroAndEverythingAtOne) {
  const auto plain = attention(q_, k_, identity_);
  const auto none = run({.p = 0, .seed = 4}), all = run({.p = 1, .seed = 4});
  for (Index n = 0; n < plain.out.size(); ++n) {
    ASSERT_EQ(none.out.data()[n], plain.out.data()[n]);
    ASSERT_EQ(all.out.data()[n], 0);
  }
}

TEST_P(AttentionDropout, DropsOtherWeightsForAnotherSeedHeadOrHalfOfTheSeed) {
  const auto differ = [](const AttentionResult& a, const AttentionResult& b) {
    Index count = 0;
    for (Index n = 0; n < a.out.size(); ++n) count += (a.out.data()[n] == 0) != (b.out.data()[n] == 0);
    return count > a.out.size() / 3;
  };
  const auto r = run({.p = 0.5, .seed = 4});
  EXPECT_TRUE(differ(r, run({.p = 0.5, .seed = 5})));
  EXPECT_TRUE(differ(r, run({.p = 0.5, .seed = 4 + (std::uint64_t{1} << 32)})));
  EXPECT_TRUE(differ(r, run({.p = 0.5, .seed = 4, .batch_start = 1})));
  Index same = 0;
  for (Index i = 0; i < kLen; ++i)
    for (Index j = 0; j < kLen; ++j) same += (r.out(0, 0, i, j) == 0) == (r.out(0, 1, i, j) == 0);
  EXPECT_NEAR(static_cast<double>(same) / (kLen * kLen), 0.5, 0.0125);
}

INSTANTIATE_TEST_SUITE_P(Targets, AttentionDropout, testing::ValuesIn(kernels::supported_targets()),
                         test::OnEveryTarget::name);

}  // namespace
}  // namespace qkv
