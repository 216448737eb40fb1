#include "viewer/lesson_scale.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>
#include <stdexcept>

#include "support/random.h"

namespace qkv::viewer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A lesson that agrees with the tutorial, to be spoilt.
ScaleLesson lesson_of_theory() {
  ScaleLesson lesson;
  lesson.options.head_dims = {4, 1024};
  lesson.variances = {{4, 4.1, 1.02, .03}, {1024, 1020, .99, .02}};
  lesson.saturations = {{4, {.25, 2.9, 1.7, 1.8}, {.098, 3.7, 1.92, 1.93}},
                        {1024, {.95, .1, .14, .0007}, {.102, 3.7, 1.92, 1.93}}};
  return lesson;
}

std::vector<double> softmax(const std::vector<double>& scores) {
  std::vector<double> weights;
  double sum = 0;
  for (double score : scores) sum += std::exp(score);
  for (double score : scores) weights.push_back(std::exp(score) / sum);
  return weights;
}

TEST(ScoresOfPairs, AreTheDotProducts) {
  test::Random random(3);
  for (const Index head_dim : {1, 5, 64, 113}) {
    const auto q = random.tensor<2>({7, head_dim}), k = random.tensor<2>({7, head_dim});
    const auto scores = scores_of_pairs(q, k, 1.0), divided = scores_of_pairs(q, k, std::nullopt);
    ASSERT_EQ(scores.size(), 7U);
    for (Index i = 0; i < 7; ++i) {
      double expected = 0, size = 0;
      for (Index d = 0; d < head_dim; ++d) {
        expected += static_cast<double>(q(i, d)) * k(i, d);
        size += std::abs(static_cast<double>(q(i, d)) * k(i, d));
      }
      EXPECT_NEAR(scores[i], expected, 1e-6 * size) << head_dim;
      EXPECT_NEAR(divided[i], expected / std::sqrt(head_dim), 1e-6 * size / std::sqrt(head_dim)) << head_dim;
    }
  }
}

TEST(ScoresOfPairs, RefusesShapesThatDiffer) {
  const Tensor<float, 2> q({3, 4}, 1), k({3, 5}, 1);
  EXPECT_THROW(scores_of_pairs(q, k, 1.0), std::invalid_argument);
}

TEST(SoftmaxGradient, IsTheSumOfTheJacobian) {
  const std::vector<double> scores = {.3, -1.2, 2.0, .7, 0};
  const auto weights = softmax(scores);
  constexpr double kStep = 1e-5;
  double sum = 0;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    auto more = scores, less = scores;
    more[j] += kStep;
    less[j] -= kStep;
    const auto above = softmax(more), below = softmax(less);
    for (std::size_t i = 0; i < scores.size(); ++i) sum += std::abs(above[i] - below[i]) / (2 * kStep);
  }
  const std::vector<float> row(weights.begin(), weights.end());
  EXPECT_NEAR(softmax_gradient(CView<1>(row.data(), {5})), sum, 1e-6);
}

TEST(SoftmaxGradient, IsNothingForOneHotAndMostForEqualWeights) {
  const float one_hot[] = {0, 1, 0, 0}, equal[] = {.25F, .25F, .25F, .25F};
  EXPECT_EQ(softmax_gradient(CView<1>(one_hot, {4})), 0);
  EXPECT_NEAR(softmax_gradient(CView<1>(equal, {4})), 2 * (1 - .25), 1e-7);
}

TEST(SoftmaxStats, AreThoseOfTheRows) {
  // Row 0 of the first entry sees scores 0 and ln 3; its row 1, and all of the second entry, equal ones.
  const float log_3 = std::log(3.0F);
  const float q_values[] = {1, 0, 0, 0}, k_values[] = {0, log_3, 0, 0};
  const CView<3> q(q_values, {2, 2, 1}), k(k_values, {2, 2, 1});
  const SoftmaxStats stats = softmax_stats(q, k, 1.0);
  const double uneven_entropy = .25 * std::log(4.0) + .75 * std::log(4.0 / 3);
  EXPECT_NEAR(stats.largest_weight, (.75 + 3 * .5) / 4, 1e-6);
  EXPECT_NEAR(stats.entropy, (uneven_entropy + 3 * std::log(2.0)) / 4, 1e-6);
  EXPECT_NEAR(stats.gradient, (.75 + 3 * 1) / 4, 1e-6);
  EXPECT_NEAR(stats.median_gradient, 1, 1e-6);
}

TEST(MeasureScale, FindsTheVarianceThatTheoryExpects) {
  const ScaleLesson lesson = measure_scale({.seed = 5, .head_dims = {1, 3, 40}, .num_pairs = 20'000});
  ASSERT_EQ(lesson.variances.size(), 3U);
  for (const ScoreVariance& row : lesson.variances) {
    EXPECT_NEAR(row.relative_error, std::sqrt((2 + 6.0 / static_cast<double>(row.head_dim)) / 20'000), 1e-12);
    EXPECT_NEAR(row.undivided / static_cast<double>(row.head_dim), 1, 5 * row.relative_error);
    EXPECT_NEAR(row.divided, 1, 5 * row.relative_error);
  }
}

TEST(MeasureScale, StatesAnErrorThatIsTheSpreadOverSeeds) {
  std::vector<double> errors;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const ScaleLesson lesson =
        measure_scale({.seed = seed, .head_dims = {4}, .num_pairs = 500, .batch = 1, .num_queries = 1, .num_keys = 2});
    errors.push_back((lesson.variances[0].divided - 1) / lesson.variances[0].relative_error);
  }
  const double mean = std::accumulate(errors.begin(), errors.end(), 0.0) / 200;
  const double square = std::inner_product(errors.begin(), errors.end(), errors.begin(), 0.0) / 200;
  EXPECT_NEAR(mean, 0, .3);
  EXPECT_NEAR(square, 1, .4);
}

TEST(MeasureScale, IsTheSameForASeedAndAnotherForAnother) {
  const ScaleOptions options = {.seed = 9, .head_dims = {8, 32}, .num_pairs = 100};
  const auto first = measure_scale(options);
  TbbExecutor threads(3);
  ScaleOptions again = options;
  again.head_dims = {32};
  again.executor = &threads;
  const auto second = measure_scale(again);
  EXPECT_EQ(first.variances[1].undivided, second.variances[0].undivided);
  EXPECT_EQ(first.saturations[1].undivided.entropy, second.saturations[0].undivided.entropy);
  again.seed = 10;
  EXPECT_NE(first.variances[1].undivided, measure_scale(again).variances[0].undivided);
}

TEST(MeasureScale, SaysWhatIsWrongWithItsOptions) {
  EXPECT_THROW(measure_scale({.head_dims = {}}), std::invalid_argument);
  EXPECT_THROW(measure_scale({.head_dims = {4, 0}}), std::invalid_argument);
  EXPECT_THROW(measure_scale({.num_pairs = 1}), std::invalid_argument);
  EXPECT_THROW(measure_scale({.num_keys = 0}), std::invalid_argument);
}

TEST(ScaleClaims, HoldForTheDefaultLesson) {
  for (const Claim& claim : claims_of(measure_scale())) EXPECT_TRUE(claim.holds) << claim.claim << claim.evidence;
}

TEST(ScaleClaims, HoldWhereTheNumbersAgree) {
  const auto claims = claims_of(lesson_of_theory());
  ASSERT_EQ(claims.size(), 3U);
  for (const Claim& claim : claims) EXPECT_TRUE(claim.holds) << claim.evidence;
}

TEST(ScaleClaims, VarianceFailsWhereOneIsFarOff) {
  for (const bool is_divided : {false, true}) {
    ScaleLesson lesson = lesson_of_theory();
    (is_divided ? lesson.variances[1].divided : lesson.variances[1].undivided) *= 1.2;
    const auto claims = claims_of(lesson);
    EXPECT_FALSE(claims[0].holds);
    EXPECT_THAT(claims[0].evidence, HasSubstr("d_k = 1024"));
    EXPECT_THAT(claims[0].evidence, Not(HasSubstr("d_k = 4 ")));
    EXPECT_TRUE(claims[1].holds);
  }
}

TEST(ScaleClaims, SaturationFailsWhereNothingSaturatesOrTheDivisionDoesNotHelp) {
  ScaleLesson lesson = lesson_of_theory();
  lesson.saturations[1].undivided.largest_weight = .5;
  EXPECT_FALSE(claims_of(lesson)[1].holds);
  lesson = lesson_of_theory();
  lesson.saturations[1].divided.largest_weight = .9;
  EXPECT_FALSE(claims_of(lesson)[1].holds);
}

TEST(ScaleClaims, GradientFailsWhereItStays) {
  ScaleLesson lesson = lesson_of_theory();
  lesson.saturations[1].undivided.gradient = 1;
  const auto claims = claims_of(lesson);
  EXPECT_FALSE(claims[2].holds);
  EXPECT_THAT(claims[2].evidence, HasSubstr("52%"));
}

TEST(ScaleClaims, FailWhereTheNumbersAreNotNumbers) {
  ScaleLesson lesson = lesson_of_theory();
  lesson.variances[0].undivided = std::nan("");
  lesson.saturations[1].undivided = {std::nan(""), std::nan(""), std::nan(""), std::nan("")};
  for (const Claim& claim : claims_of(lesson)) EXPECT_FALSE(claim.holds) << claim.evidence;
}

}  // namespace
}  // namespace qkv::viewer
