// Cosine and additive scoring: what the sweep's random numbers do not reach.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "qkv/attention/attention.h"
#include "qkv/attention/resolve.h"
#include "support/poison.h"
#include "support/random.h"
#include "support/targets.h"
#include "support/tolerance.h"

namespace qkv {
namespace {

using test::kNaN;
using testing::AllOf;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;
using testing::ThrowsMessage;

std::vector<float> values_of(const Tensor<float, 4>& t) {
  return {t.data(), t.data() + t.size()};
}

class Scoring : public test::OnEveryTarget {
 protected:
  // Attention of random tensors against the oracle.
  void expect_oracle(const AttentionOptions& options, float q_factor = 1, float k_factor = 1) {
    auto q = random_.tensor<4>({1, 2, 30, 6}), k = random_.tensor<4>({1, 2, 110, 6}),
         v = random_.tensor<4>({1, 2, 110, 5});
    for (Index n = 0; n < q.size(); ++n) q.data()[n] *= q_factor;
    for (Index n = 0; n < k.size(); ++n) k.data()[n] *= k_factor;
    AttentionOptions observed = options;
    observed.observe = {.lse = true, .entropy = true, .attn_weights = true};
    const auto got = attention(q, k, v, observed);
    const auto args = resolve<float>(q, k, v, observed);
    test::expect_accepted(got, test::Oracle<float>(args), args, "scoring");
  }

  test::Random random_{17};
  Tensor<float, 2> w_q_ = random_.tensor<2>({13, 6}), w_k_ = random_.tensor<2>({13, 6});
  Tensor<float, 1> w_v_ = random_.tensor<1>({13});
  AdditiveScoring additive_{w_q_.view(), w_k_.view(), w_v_.view()};
};

TEST_P(Scoring, CosineIgnoresLengthsAndGivesZeroForAZeroVector) {
  const Tensor<float, 4> zero({1, 1, 1, 2}, 0.0f);
  Tensor<float, 4> q({1, 1, 1, 2}), k({1, 1, 3, 2}), v({1, 1, 3, 1});
  const float queries[] = {3, 4}, keys[] = {30, 40, 0, 0, -8, 6}, values[] = {1, 2, 4};
  std::copy_n(queries, 2, q.data()), std::copy_n(keys, 6, k.data()), std::copy_n(values, 3, v.data());
  // cosines 1, 0 (zero key), 0 (right angle)
  const float e = std::exp(1.0f);
  const auto r = attention(q, k, v, {.scoring = CosineScoring{}, .observe = {.attn_weights = true}});
  EXPECT_THAT(values_of(r.attn_weights), Pointwise(FloatNear(1e-6f), {e / (e + 2), 1 / (e + 2), 1 / (e + 2)}));
  const auto uniform = attention(zero, k, v, {.scoring = CosineScoring{}});
  EXPECT_NEAR(uniform.out(0, 0, 0, 0), 7 / 3.0f, 1e-6f);
}

TEST_P(Scoring, CosineSquaresNothingThatOverflows) {
  expect_oracle({.scoring = CosineScoring{}}, 1e25f, 1e-25f);
  expect_oracle({.scoring = CosineScoring{}, .scale = 20.0}, 1e-25f, 1e25f);
  expect_oracle({.scoring = CosineScoring{}}, 5e37f, 5e37f);
}

TEST_P(Scoring, AdditiveIsExactWhereTheQuickFormWouldOverflow) {
  for (float factor : {10.0f, 30.0f, 1e4f, 1e30f}) {
    expect_oracle({.scoring = additive_}, factor);
    expect_oracle({.scoring = additive_}, 1, factor);
  }
  expect_oracle({.scoring = additive_}, 10, 10);  // more, and a + b cancels so badly that no float code agrees
  expect_oracle({.scoring = additive_}, 0, 0);
}

// With equal keys all scores of a row are equal, however large, so that out is the mean of v.
template <class T>
void expect_mean_whatever_the_size(std::initializer_list<T> sizes) {
  test::Random random(21);
  auto q = random.tensor<4, T>({1, 1, 9, 6});
  for (Index n = 0; n < q.size(); ++n) q.data()[n] *= 4;
  const auto v = random.tensor<4, T>({1, 1, 100, 3});
  const auto w_q = random.tensor<2, T>({13, 6}), w_k = random.tensor<2, T>({13, 6});
  const Tensor<T, 4> k({1, 1, 100, 6}, T{0.5});
  for (T size : sizes) {
    auto w_v = random.tensor<1, T>({13});
    for (Index n = 0; n < 13; ++n) w_v.data()[n] *= size;
    const auto r =
        attention(q, k, v,
                  BasicAttentionOptions<T>{.scoring = BasicAdditiveScoring<T>{w_q.view(), w_k.view(), w_v.view()},
                                           .observe = {.lse = true}});
    for (Index c = 0; c < 3; ++c) {
      T mean = 0;
      for (Index j = 0; j < 100; ++j) mean += v(0, 0, j, c) / 100;
      for (Index i = 0; i < 9; ++i) {
        ASSERT_NEAR(r.out(0, 0, i, c), mean, 1e-5) << size;
        ASSERT_TRUE(std::isfinite(r.lse(0, 0, i))) << size;
      }
    }
  }
}

TEST_P(Scoring, AdditiveTakesWeightsOfAnySize) {
  expect_mean_whatever_the_size<float>({1, 1e10f, 1e21f, 1e30f});
  expect_mean_whatever_the_size<double>({1, 1e100, 1e280, 1e300});
}

TEST_P(Scoring, AdditiveTakesKeysOfAnotherWidth) {  // as d2l's example does: queries of 20, keys of 2
  const auto q = random_.tensor<4>({2, 1, 1, 20}), k = random_.tensor<4>({2, 1, 10, 2}),
             v = random_.tensor<4>({2, 1, 10, 4});
  const auto w_q = random_.tensor<2>({8, 20}), w_k = random_.tensor<2>({8, 2});
  const auto w_v = random_.tensor<1>({8});
  const std::vector<Index> lengths{2, 6};
  const AttentionOptions options{.scoring = AdditiveScoring{w_q.view(), w_k.view(), w_v.view()},
                                 .mask = {.valid_lens = lengths},
                                 .observe = {.attn_weights = true}};
  const auto got = attention(q, k, v, options);
  const auto args = resolve<float>(q, k, v, options);
  test::expect_accepted(got, test::Oracle<float>(args), args, "d2l");
}

TEST_P(Scoring, ExcludedKeysContributeNothingWhateverTheyHold) {
  Tensor<bool, 4> keep({1, 1, 1, 100}, true);
  for (Index j : {0, 40, 97}) keep(0, 0, 0, j) = false;
  for (const auto& scoring : {qkv::Scoring(CosineScoring{}), qkv::Scoring(additive_)}) {
    const auto q = random_.tensor<4>({1, 1, 9, 6});
    auto k = random_.tensor<4>({1, 1, 100, 6}), v = random_.tensor<4>({1, 1, 100, 3});
    for (Index d = 0; d < 6; ++d) k(0, 0, 39, d) *= 1000;  // visible, beside an excluded one, and past the quick form
    const AttentionOptions options{.scoring = scoring, .mask = {.keep = keep.view()}};
    const auto clean = values_of(attention(q, k, v, options).out);
    for (float with : {kNaN, test::kInfinity, 1e30f, 0.0f}) {
      for (Index j : {0, 40, 97})
        for (Index d = 0; d < 6; ++d) k(0, 0, j, d) = with;
      EXPECT_EQ(values_of(attention(q, k, v, options).out), clean) << with;
    }
  }
}

TEST_P(Scoring, AVisibleNaNShowsInItsRow) {
  auto q = random_.tensor<4>({1, 1, 9, 6}), k = random_.tensor<4>({1, 1, 100, 6}),
       v = random_.tensor<4>({1, 1, 100, 3});
  q(0, 0, 4, 2) = kNaN;
  for (const auto& scoring : {qkv::Scoring(CosineScoring{}), qkv::Scoring(additive_)}) {
    const auto r = attention(q, k, v, {.scoring = scoring});
    for (Index i = 0; i < 9; ++i) EXPECT_EQ(std::isnan(r.out(0, 0, i, 0)), i == 4);
  }
}

TEST_P(Scoring, TheDefaultScaleIsOneUnlessTheScoreIsADotProduct) {
  const Tensor<float, 4> q({1, 1, 1, 16}, 1.0f), k({1, 1, 1, 16}, 1.0f), v({1, 1, 1, 1}, 1.0f);
  EXPECT_FLOAT_EQ(attention(q, k, v, {.observe = {.lse = true}}).lse(0, 0, 0), 4);
  EXPECT_FLOAT_EQ(attention(q, k, v, {.scoring = CosineScoring{}, .observe = {.lse = true}}).lse(0, 0, 0), 1);
}

TEST_P(Scoring, RefusesWeightsThatDoNotFit) {
  const Tensor<float, 4> q({1, 1, 2, 5}, 0.0f), k({1, 1, 3, 6}, 0.0f);
  const auto refused = [&](const AdditiveScoring& scoring, const char* argument, const char* got,
                           const char* expected) {
    EXPECT_THAT([&] { attention(q, k, k, {.scoring = scoring}); },
                ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr(argument), HasSubstr(got), HasSubstr(expected))));
  };
  refused(additive_, "w_q.shape[1] (head_dim)", "got 6", "expected 5 as in q");
  const Tensor<float, 2> w_q({13, 5}, 0.0f), fewer({12, 6}, 0.0f);
  const Tensor<float, 1> none({0});
  refused({w_q.view(), fewer.view(), w_v_.view()}, "w_k.shape[0] (hidden_dim)", "got 12", "expected 13 as in w_v");
  refused({w_q.view(), w_k_.view(), none.view()}, "w_v.shape[0] (hidden_dim)", "got 0", "1 to 2^22");
  EXPECT_THROW(attention(q, k, k, {.scoring = CosineScoring{}}), std::invalid_argument);  // 5 and 6
}

INSTANTIATE_TEST_SUITE_P(Targets, Scoring, testing::ValuesIn(kernels::supported_targets()), test::OnEveryTarget::name);

}  // namespace
}  // namespace qkv
