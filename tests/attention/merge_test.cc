#include "qkv/attention/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

#include "qkv/attention/attention.h"
#include "support/random.h"

namespace qkv {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<AttentionResult> two_parts(AttentionResult a, AttentionResult b) {
  std::vector<AttentionResult> parts;
  parts.push_back(std::move(a));
  parts.push_back(std::move(b));
  return parts;
}

class Merge : public testing::Test {
 protected:
  test::Random random_{3};
  Tensor<float, 4> q_ = random_.tensor<4>({2, 3, 31, 8}), k_ = random_.tensor<4>({2, 3, 150, 8}),
                   v_ = random_.tensor<4>({2, 3, 150, 5});

  AttentionResult part(Index begin, Index end, AttentionOptions options = {}) const {
    options.observe.lse = true;
    return attention(q_, k_.view().slice(2, begin, end), v_.view().slice(2, begin, end), options);
  }
  void expect_whole(const AttentionResult& merged, const AttentionResult& whole) const {
    for (Index n = 0; n < whole.out.size(); ++n) ASSERT_NEAR(merged.out.data()[n], whole.out.data()[n], 2e-6f) << n;
    for (Index n = 0; n < whole.lse.size(); ++n) ASSERT_NEAR(merged.lse.data()[n], whole.lse.data()[n], 2e-6f) << n;
  }
};

TEST_F(Merge, OfPartsIsAttentionOverAllKeys) {
  expect_whole(merge(two_parts(part(0, 37), part(37, 150))), part(0, 150));
}

TEST_F(Merge, LetsAPartWithoutKeysAddNothingWhateverItHolds) {
  AttentionResult empty = part(0, 0);
  for (Index n = 0; n < empty.out.size(); ++n) empty.out.data()[n] = std::numeric_limits<float>::quiet_NaN();
  expect_whole(merge(two_parts(std::move(empty), part(0, 150))), part(0, 150));
}

TEST_F(Merge, OfNothingSeenIsNothing) {
  const auto merged = merge(two_parts(part(0, 0), part(3, 3)));
  for (Index n = 0; n < merged.out.size(); ++n) ASSERT_EQ(merged.out.data()[n], 0);
  for (Index n = 0; n < merged.lse.size(); ++n) ASSERT_EQ(merged.lse.data()[n], -kInfinity);
}

TEST_F(Merge, TakesASinkThatOnePartCarries) {
  const Tensor<float, 1> sinks = random_.tensor<1>({3});
  expect_whole(merge(two_parts(part(0, 37, {.sinks = sinks.view()}), part(37, 150))),
               part(0, 150, {.sinks = sinks.view()}));
}

TEST_F(Merge, KeepsNaNInItsOwnRow) {
  AttentionResult a = part(0, 37);
  const AttentionResult whole = part(0, 150);
  a.lse(1, 2, 7) = std::numeric_limits<float>::quiet_NaN();
  a.lse(0, 1, 3) = kInfinity;
  const auto merged = merge(two_parts(std::move(a), part(37, 150)));
  for (Index b = 0; b < 2; ++b)
    for (Index h = 0; h < 3; ++h)
      for (Index i = 0; i < 31; ++i) {
        if ((b == 1 && h == 2 && i == 7) || (b == 0 && h == 1 && i == 3))
          ASSERT_TRUE(std::isnan(merged.out(b, h, i, 0))) << b << h << i;
        else
          ASSERT_NEAR(merged.out(b, h, i, 0), whole.out(b, h, i, 0), 2e-6f) << b << h << i;
      }
}

TEST_F(Merge, RefusesWhatCannotBeMerged) {
  const auto refuses = [](const std::vector<AttentionResult>& parts, const char* message) {
    EXPECT_THAT([&] { merge(parts); }, ThrowsMessage<std::invalid_argument>(HasSubstr(message)));
  };
  refuses({}, "merge: parts: got none, expected at least one");
  refuses(two_parts(part(0, 9), attention(q_, k_, v_)),
          "merge: parts[1].lse.shape: got [0, 0, 0], expected [2, 3, 31]");
  refuses(two_parts(part(0, 9), attention(q_, k_, k_, {.observe = {.lse = true}})),
          "merge: parts[1].out.shape: got [2, 3, 31, 8], expected [2, 3, 31, 5]");
}

}  // namespace
}  // namespace qkv
