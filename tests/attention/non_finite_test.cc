// NaN and Inf: where they must show and where they must not.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "qkv/attention/attention.h"
#include "support/poison.h"
#include "support/random.h"
#include "support/targets.h"

namespace qkv {
namespace {

using test::kInfinity;
using test::kNaN;

constexpr Index kBatch = 2, kHeads = 2, kQueries = 37, kKeys = 130, kDim = 12;
constexpr Index kHidden[] = {0, 3, 50, 95, 96, 129};  // keys that the masks below exclude from every query

struct Problem {
  explicit Problem(std::uint64_t seed) : random(seed) {
    q = random.tensor<4>({kBatch, kHeads, kQueries, kDim});
    k = random.tensor<4>({kBatch, kHeads, kKeys, kDim});
    v = random.tensor<4>({kBatch, kHeads, kKeys, kDim});
    keep = Tensor<bool, 4>({1, 1, 1, kKeys}, true);
    bias = random.tensor<4>({1, 1, kQueries, kKeys});
    for (Index j : kHidden) {
      keep(0, 0, 0, j) = false;
      for (Index i = 0; i < kQueries; ++i) bias(0, 0, i, j) = -kInfinity;
    }
  }

  // Spoils keys and values that nobody may see.
  void spoil(float with, std::initializer_list<Index> keys) {
    for (Index b = 0; b < kBatch; ++b)
      for (Index h = 0; h < kHeads; ++h)
        for (Index j : keys)
          for (Index d = 0; d < kDim; ++d) k(b, h, j, d) = v(b, h, j, d) = with;
  }

  AttentionResult run(AttentionOptions options) const {
    options.observe = {.lse = true, .entropy = true, .attn_weights = true};
    return attention(q, k, v, options);
  }

  Tensor<float, 4> run_unobserved(const AttentionOptions& options) const { return attention(q, k, v, options).out; }

  test::Random random;
  Tensor<float, 4> q, k, v, bias;
  Tensor<bool, 4> keep;
};

template <int Rank>
void expect_same(const Tensor<float, Rank>& got, const Tensor<float, Rank>& expected, const std::string& what) {
  for (Index n = 0; n < got.size(); ++n) {
    ASSERT_TRUE(std::isfinite(got.data()[n])) << what << " at " << n;
    ASSERT_FLOAT_EQ(got.data()[n], expected.data()[n]) << what << " at " << n;
  }
}

class NonFinite : public test::OnEveryTarget {};

// https://github.com/pytorch/pytorch/issues/101967
TEST_P(NonFinite, ExcludedKeysAndValuesContributeExactlyNothing) {
  const std::vector<Index> lengths{90, 120};
  using Options = std::function<AttentionOptions(const Problem&)>;
  const struct {
    const char* name;
    Options options;
    std::initializer_list<Index> hidden;
  } kinds[] = {
      {"keep",
       [](const Problem& p) { return AttentionOptions{.mask = {.keep = p.keep.view()}}; },
       {0, 3, 50, 95, 96, 129}},
      {"bias", [](const Problem& p) { return AttentionOptions{.attn_bias = p.bias.view()}; }, {0, 3, 50, 95, 96, 129}},
      {"causal",
       [](const Problem&) { return AttentionOptions{.mask = {.causal = true, .q_start = 20}}; },
       {57, 58, 96, 129}},
      {"window",
       [](const Problem&) { return AttentionOptions{.mask = {.window = Window{.left = 9}, .q_start = 40}}; },
       {0, 30}},
      {"valid_lens", [&](const Problem&) { return AttentionOptions{.mask = {.valid_lens = lengths}}; }, {120, 129}},
      {"softcap",
       [](const Problem& p) { return AttentionOptions{.softcap = 3.0, .mask = {.keep = p.keep.view()}}; },
       {3, 96}},
  };
  for (const auto& kind : kinds)
    for (float with : {kNaN, kInfinity, -kInfinity}) {
      Problem problem(1);
      const auto clean = problem.run(kind.options(problem));
      problem.spoil(with, kind.hidden);
      const auto spoiled = problem.run(kind.options(problem));
      const std::string what = std::string(kind.name) + " with " + std::to_string(with);
      expect_same(spoiled.out, clean.out, what + " out");
      expect_same(problem.run_unobserved(kind.options(problem)), clean.out, what + " out, nothing else observed");
      expect_same(spoiled.lse, clean.lse, what + " lse");
      expect_same(spoiled.entropy, clean.entropy, what + " entropy");
      expect_same(spoiled.attn_weights, clean.attn_weights, what + " attn_weights");
    }
}

TEST_P(NonFinite, ABiasOfAnExcludedKeyContributesNothing) {
  for (float with : {kNaN, kInfinity}) {
    Problem problem(6);
    problem.bias = problem.random.tensor<4>({1, 1, kQueries, kKeys});
    const auto options = [&](bool causal) {
      Mask mask{.keep = problem.keep.view()};
      if (causal) mask = {.causal = true, .q_start = 20};
      return AttentionOptions{.attn_bias = problem.bias.view(), .mask = mask};
    };
    for (bool causal : {true, false}) {
      const auto clean = problem.run(options(causal));
      for (Index i = 0; i < kQueries; ++i)
        for (Index j = 0; j < kKeys; ++j)
          if (causal ? j > i + 20 : !problem.keep(0, 0, 0, j)) problem.bias(0, 0, i, j) = with;
      const std::string what = std::string(causal ? "causal" : "keep") + " with " + std::to_string(with);
      expect_same(problem.run(options(causal)).out, clean.out, what);
      expect_same(problem.run_unobserved(options(causal)), clean.out, what + ", nothing else observed");
      problem.bias = problem.random.tensor<4>({1, 1, kQueries, kKeys});
    }
  }
}

// A value that only some queries of a panel may see: NaN reaches exactly those.
TEST_P(NonFinite, AValueSpoilsOnlyTheRowsThatSeeItAndOnlyItsColumn) {
  Problem problem(2);
  problem.v(0, 1, 30, 5) = kNaN;
  const auto r = problem.run({.mask = {.causal = true, .q_start = 10}});
  for (Index b = 0; b < kBatch; ++b)
    for (Index h = 0; h < kHeads; ++h)
      for (Index i = 0; i < kQueries; ++i)
        for (Index d = 0; d < kDim; ++d)
          ASSERT_EQ(std::isnan(r.out(b, h, i, d)), b == 0 && h == 1 && i + 10 >= 30 && d == 5) << i << " " << d;
}

TEST_P(NonFinite, AKeySpoilsExactlyTheRowsThatSeeIt) {
  Problem problem(3);
  problem.k(1, 0, 25, 0) = kNaN;
  const auto r = problem.run({.mask = {.causal = true, .q_start = 10}});
  for (Index b = 0; b < kBatch; ++b)
    for (Index h = 0; h < kHeads; ++h)
      for (Index i = 0; i < kQueries; ++i) {
        const bool spoiled = b == 1 && h == 0 && i + 10 >= 25;
        ASSERT_EQ(std::isnan(r.out(b, h, i, 3)), spoiled) << i;
        ASSERT_EQ(std::isnan(r.lse(b, h, i)), spoiled) << i;
        ASSERT_EQ(std::isnan(r.entropy(b, h, i)), spoiled) << i;
        ASSERT_EQ(std::isnan(r.attn_weights(b, h, i, 2)), spoiled) << i;
      }
}

TEST_P(NonFinite, AQuerySpoilsItsOwnRowAlone) {
  Problem problem(4);
  problem.q(0, 0, 11, 2) = kNaN;
  const auto r = problem.run({});
  for (Index i = 0; i < kQueries; ++i) ASSERT_EQ(std::isnan(r.out(0, 0, i, 0)), i == 11) << i;
}

TEST_P(NonFinite, AnInfiniteScoreGivesNaNInItsRow) {
  Problem problem(5);
  for (Index d = 0; d < kDim; ++d) problem.q(0, 0, 7, d) = problem.k(0, 0, 40, d) = 1;
  problem.k(0, 0, 40, 0) = kInfinity;
  const auto r = problem.run({});
  EXPECT_TRUE(std::isnan(r.out(0, 0, 7, 0)));
  EXPECT_TRUE(std::isnan(r.attn_weights(0, 0, 7, 40)));
  EXPECT_TRUE(std::isnan(r.entropy(0, 0, 7)));
  EXPECT_FALSE(std::isfinite(r.lse(0, 0, 7)));
}

TEST_P(NonFinite, LargeFiniteScoresStayExact) {
  Tensor<float, 4> q({1, 1, 1, 1}, 1.0f), k({1, 1, 3, 1}), v({1, 1, 3, 1});
  const float scores[] = {-1e30f, 1e30f, 3e29f};
  for (Index j = 0; j < 3; ++j) k(0, 0, j, 0) = scores[j], v(0, 0, j, 0) = static_cast<float>(j);
  const auto r = attention(q, k, v, {.scale = 1.0, .observe = {.lse = true}});
  EXPECT_EQ(r.out(0, 0, 0, 0), 1);
  EXPECT_FLOAT_EQ(r.lse(0, 0, 0), 1e30f);
}

INSTANTIATE_TEST_SUITE_P(Targets, NonFinite, testing::ValuesIn(kernels::supported_targets()),
                         test::OnEveryTarget::name);

}  // namespace
}  // namespace qkv
