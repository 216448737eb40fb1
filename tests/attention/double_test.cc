// Calls on doubles. That they agree with the oracle is the sweep's; here is what only they can do, and what must hold as for floats.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "qkv/attention/attention.h"
#include "qkv/attention/merge.h"
#include "support/attention_case.h"
#include "support/random.h"
#include "support/targets.h"

namespace qkv {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

class DoubleAttention : public test::OnEveryTarget {
 protected:
  test::Random random_{11};
  Tensor<double, 4> q_ = random_.tensor<4, double>({2, 3, 31, 8}), k_ = random_.tensor<4, double>({2, 3, 150, 8}),
                    v_ = random_.tensor<4, double>({2, 3, 150, 5});
};

// [1, 1, rows, columns]
Tensor<double, 4> matrix(Index rows, Index columns, const std::vector<double>& values) {
  Tensor<double, 4> result({1, 1, rows, columns});
  std::copy(values.begin(), values.end(), result.data());
  return result;
}

template <class T, int Rank>
bool same_bits(const Tensor<T, Rank>& a, const Tensor<T, Rank>& b) {
  return a.shape() == b.shape() && std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.size()) * sizeof(T)) == 0;
}

TEST_P(DoubleAttention, ResolvesWhatFloatsCannot) {
  // Two keys whose scores, around 1e6, differ by 1/64: as floats they would be equal.
  const auto q = matrix(1, 1, {1}), k = matrix(2, 1, {1e6, 1e6 + 1.0 / 64}), v = matrix(2, 1, {0, 1});
  const auto result = attention(q, k, v, {.scale = 1, .observe = {.lse = true}});
  EXPECT_NEAR(result.out(0, 0, 0, 0), 1 / (1 + std::exp(-1.0 / 64)), 1e-9);
  EXPECT_NEAR(result.lse(0, 0, 0), 1e6 + std::log(1 + std::exp(1.0 / 64)), 1e-9);
}

TEST_P(DoubleAttention, TakesValuesBeyondTheRangeOfFloat) {
  const Tensor<double, 4> q({1, 1, 1, 1}, 1e-200), k({1, 1, 3, 1}, 1e200), v({1, 1, 3, 1}, 1e300);
  EXPECT_NEAR(attention(q, k, v).out(0, 0, 0, 0) / 1e300, 1, 1e-15);
  const auto lowest = matrix(1, 3, {0, 0, -1e300});
  EXPECT_NEAR(attention(q, k, v, {.attn_bias = lowest.view()}).out(0, 0, 0, 0) / 1e300, 1, 1e-15);
}

TEST_P(DoubleAttention, GivesTheSameBitsForAnyNumberOfThreads) {
  TbbExecutor four(4);
  for (int mask = 0; mask < test::kNumMaskKinds; ++mask) {
    test::BasicCaseInputs<double> inputs({.num_heads = 6,
                                          .num_kv_heads = 2,
                                          .q_len = 61,
                                          .kv_len = 113,
                                          .head_dim = 9,
                                          .v_head_dim = 7,
                                          .mask = static_cast<test::MaskKind>(mask)});
    inputs.options.observe = {.lse = true, .entropy = true, .attn_weights = true};
    inputs.options.executor = &calling_thread_executor();
    const auto one = attention(inputs.q(), inputs.k(), inputs.v(), inputs.options);
    inputs.options.executor = &four;
    const auto many = attention(inputs.q(), inputs.k(), inputs.v(), inputs.options);
    EXPECT_TRUE(same_bits(one.out, many.out) && same_bits(one.lse, many.lse) && same_bits(one.entropy, many.entropy) &&
                same_bits(one.attn_weights, many.attn_weights))
        << mask;
  }
}

TEST_P(DoubleAttention, IgnoresNaNInExcludedKeysAndValues) {
  const std::vector<Index> lengths{100, 120};
  BasicAttentionOptions<double> options{.mask = {.valid_lens = lengths}};
  const auto clean = attention(q_, k_, v_, options);
  for (Index b = 0; b < 2; ++b)
    for (Index h = 0; h < 3; ++h)
      for (Index j = lengths[static_cast<std::size_t>(b)]; j < 150; ++j) k_(b, h, j, 3) = v_(b, h, j, 2) = kNaN;
  EXPECT_TRUE(same_bits(attention(q_, k_, v_, options).out, clean.out));
}

// Of a mask by which query i sees key j where sees(i, j): NaN and Inf in values show in the rows that see them alone.
template <class Sees>
void expect_spoilt_where_seen(const Tensor<double, 4>& q, const Tensor<double, 4>& k, Tensor<double, 4>& v,
                              const BasicAttentionOptions<double>& options, const Sees& sees) {
  constexpr Index kNaNKey = 110, kInfKey = 120;
  const auto clean = attention(q, k, v, options);
  const double nan_place = std::exchange(v(0, 1, kNaNKey, 2), kNaN);
  const double inf_place = std::exchange(v(0, 1, kInfKey, 4), kInf);
  const auto spoilt = attention(q, k, v, options);
  v(0, 1, kNaNKey, 2) = nan_place;
  v(0, 1, kInfKey, 4) = inf_place;
  EXPECT_TRUE(same_bits(spoilt.lse, clean.lse) && same_bits(spoilt.entropy, clean.entropy));
  for (Index b = 0; b < 2; ++b)
    for (Index h = 0; h < 3; ++h)
      for (Index i = 0; i < 31; ++i) {
        const bool here = b == 0 && h == 1, sees_nan = here && sees(i, kNaNKey), sees_inf = here && sees(i, kInfKey);
        for (Index d = 0; d < 5; ++d) {
          const double got = spoilt.out(b, h, i, d), expected = clean.out(b, h, i, d);
          if (d == 2 && sees_nan)
            ASSERT_TRUE(std::isnan(got)) << i;
          else if (d == 4 && sees_inf)
            ASSERT_EQ(got, kInf) << i;
          else if (sees_nan || sees_inf)
            ASSERT_NEAR(got, expected, 1e-13) << i << ' ' << d;
          else
            ASSERT_EQ(got, expected) << b << ' ' << h << ' ' << i << ' ' << d;
        }
      }
}

TEST_P(DoubleAttention, KeepsNaNAndInfFromTheRowsOfAPanelThatDoNotSeeThem) {
  const Observe observe{.lse = true, .entropy = true};
  expect_spoilt_where_seen(q_, k_, v_, {.mask = {.causal = true, .q_start = 100}, .observe = observe},
                           [](Index i, Index j) { return j <= 100 + i; });
  const auto sees = [](Index i, Index j) { return (i + j) % 3 != 0; };
  Tensor<bool, 4> keep({1, 1, 31, 150});
  for (Index i = 0; i < 31; ++i)
    for (Index j = 0; j < 150; ++j) keep(0, 0, i, j) = sees(i, j);
  expect_spoilt_where_seen(q_, k_, v_, {.mask = {.keep = keep.view()}, .observe = observe}, sees);
}

TEST_P(DoubleAttention, ReachesResultsWhoseUnnormalisedSumOverflows) {
  // Equal weights: the sum of the values from key 110 on overflows from the second on, their mean does not.
  for (Index n = 0; n < k_.size(); ++n) k_.data()[n] = 0;
  const BasicAttentionOptions<double> options{.mask = {.causal = true, .q_start = 100}};
  const auto clean = attention(q_, k_, v_, options);
  for (Index j = 110; j < 150; ++j) v_(0, 1, j, 2) = 1e308;
  const auto large = attention(q_, k_, v_, options);
  for (Index i = 0; i < 31; ++i) {
    const Index num_large = std::max<Index>(0, i - 9);
    for (Index d = 0; d < 5; ++d) {
      if (d == 2 && num_large > 0)
        ASSERT_NEAR(large.out(0, 1, i, d) / 1e308, static_cast<double>(num_large) / static_cast<double>(101 + i), 1e-14)
            << i;
      else if (num_large > 1)
        ASSERT_NEAR(large.out(0, 1, i, d), clean.out(0, 1, i, d), 1e-14) << i << ' ' << d;
      else
        ASSERT_EQ(large.out(0, 1, i, d), clean.out(0, 1, i, d)) << i << ' ' << d;
    }
  }
}

TEST_P(DoubleAttention, DropsTheWeightsThatACallOnFloatsDrops) {
  const Tensor<float, 4> ones({2, 3, 31, 8}, 1.0f), keys({2, 3, 150, 8}, 1.0f);
  const Tensor<double, 4> ones_64({2, 3, 31, 8}, 1.0), keys_64({2, 3, 150, 8}, 1.0);
  // v picks one key for each output, so that out is the row of weights after dropout.
  Tensor<float, 4> unit({2, 3, 150, 150}, 0.0f);
  Tensor<double, 4> unit_64({2, 3, 150, 150}, 0.0);
  for (Index b = 0; b < 2; ++b)
    for (Index h = 0; h < 3; ++h)
      for (Index j = 0; j < 150; ++j) unit(b, h, j, j) = 1, unit_64(b, h, j, j) = 1;
  const Dropout dropout{.p = 0.3, .seed = 99};
  const auto out = attention(ones, keys, unit, {.dropout = dropout}).out;
  const auto out_64 = attention(ones_64, keys_64, unit_64, {.dropout = dropout}).out;
  for (Index n = 0; n < out.size(); ++n) ASSERT_EQ(out.data()[n] == 0, out_64.data()[n] == 0) << n;
}

TEST_P(DoubleAttention, MergesParts) {
  BasicAttentionOptions<double> options{.observe = {.lse = true}};
  std::vector<BasicAttentionResult<double>> parts;
  for (const auto& [begin, end] : {std::pair{0, 37}, {37, 150}})
    parts.push_back(attention(q_, k_.view().slice(2, begin, end), v_.view().slice(2, begin, end), options));
  const auto whole = attention(q_, k_, v_, options), merged = merge(parts);
  for (Index n = 0; n < whole.out.size(); ++n) ASSERT_NEAR(merged.out.data()[n], whole.out.data()[n], 1e-14) << n;
  for (Index n = 0; n < whole.lse.size(); ++n) ASSERT_NEAR(merged.lse.data()[n], whole.lse.data()[n], 1e-14) << n;
}

TEST_P(DoubleAttention, IsPlannedAndChecked) {
  const Shape<4> shape{1, 2, 64, 16};
  TbbExecutor one(1);
  EXPECT_GT(plan<double>(shape, shape, shape, {.executor = &one}).workspace_bytes, 0);
  EXPECT_THROW(plan<double>(shape, shape, {1, 2, 63, 16}), std::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(Targets, DoubleAttention, testing::ValuesIn(kernels::supported_targets()),
                         test::OnEveryTarget::name);

}  // namespace
}  // namespace qkv
