#include "qkv/nn/norm.h"

#include <utility>

#include "nn/layer_support.h"
#include "support/poison.h"
#include "support/targets.h"

namespace qkv::test {
namespace {

class LayerNormForward : public OnEveryTarget {};

TEST(LayerNorm, GivesHandComputedValues) {
  const LayerNorm layer{.weight = tensor_of<1>({2}, {2, 3}), .bias = tensor_of<1>({2}, {10, 20}), .eps = 0};
  const auto out = forward(layer, tensor_of<3>({1, 1, 2}, {5, 9}));  // mean 7, deviation 2
  EXPECT_EQ(values(out), (std::vector<float>{8, 23}));
}

TEST_P(LayerNormForward, AgreesWithDoubleForOddWidths) {
  for (Index dim : {1, 2, 7, 8, 9, 31, 384, 1001}) {
    Random random(static_cast<std::uint64_t>(dim));
    const LayerNorm layer = random_norm(random, dim);
    const auto x = random.tensor<3>({2, 37, dim});
    SCOPED_TRACE(dim);
    expect_near(forward(layer, x), norm_reference(layer, to_double(x.view())), 1e-6);
  }
}

TEST(LayerNorm, WithoutBiasEqualsAZeroBias) {
  Random random(1);
  LayerNorm layer = random_norm(random, 12);
  layer.bias = Tensor<float, 1>({12}, 0);
  const auto x = random.tensor<3>({1, 5, 12});
  const auto expected = forward(layer, x);
  layer.bias.reset();
  expect_same_bits(forward(layer, x), expected);
}

// One-pass float sums lose everything here: the squares are 1e8, the variance is 1.
TEST_P(LayerNormForward, KeepsSmallDeviationsOfALargeMean) {
  LayerNorm layer{.weight = Tensor<float, 1>({4}, 1)};
  layer.eps = 0;
  const auto out = forward(layer, tensor_of<3>({1, 1, 4}, {10001, 9999, 10001, 9999}));
  EXPECT_EQ(values(out), (std::vector<float>{1, -1, 1, -1}));
}

TEST_P(LayerNormForward, GivesTheBiasForARowOfEqualValues) {
  Random random(2);
  const LayerNorm layer = random_norm(random, 9, 1e-12);
  const auto out = forward(layer, Tensor<float, 3>({1, 1, 9}, 0.1f));
  EXPECT_EQ(values(out), values(*layer.bias));
}

TEST_P(LayerNormForward, KeepsNanAndInfinityInTheirRow) {
  Random random(3);
  const LayerNorm layer = random_norm(random, 27);
  auto x = random.tensor<3>({1, 3, 27});
  const auto expected = forward(layer, x);
  for (float bad : {kNaN, kInfinity, -kInfinity})
    for (Index at : {0, 4, 20, 26}) {
      const float good = std::exchange(x(0, 1, at), bad);
      const auto out = forward(layer, x);
      for (Index d = 0; d < 27; ++d) {
        ASSERT_EQ(out(0, 0, d), expected(0, 0, d));
        ASSERT_TRUE(std::isnan(out(0, 1, d))) << bad << " at " << at;
        ASSERT_EQ(out(0, 2, d), expected(0, 2, d));
      }
      x(0, 1, at) = good;
    }
}

TEST_P(LayerNormForward, GivesARowTheSameBitsWhereverItLies) {
  Random random(11);
  const LayerNorm layer = random_norm(random, 37);
  const auto x = random.tensor<3>({3, 35, 37}), residual = random.tensor<3>({3, 35, 37});
  const auto all = forward_sum(layer, x, residual);
  for (Index b : {0, 2})
    for (Index i : {0, 7, 34}) {
      const auto row = [=](const auto& tensor) { return tensor.view().slice(0, b, b + 1).slice(1, i, i + 1); };
      const auto alone = forward_sum(layer, row(x), row(residual));
      for (Index d = 0; d < 37; ++d) ASSERT_EQ(alone(0, 0, d), all(b, i, d));
    }
}

TEST_P(LayerNormForward, AddsTheResidualBeforeItNormalises) {
  Random random(4);
  const LayerNorm layer = random_norm(random, 11);
  const auto x = random.tensor<3>({2, 5, 11}), residual = random.tensor<3>({2, 5, 11});
  const auto sum = sum_reference(to_double(x.view()), to_double(residual.view()));
  expect_near(forward_sum(layer, x, residual), norm_reference(layer, sum), 1e-6);
}

TEST_P(LayerNormForward, ReadsStridedInput) {
  Random random(5);
  const LayerNorm layer = random_norm(random, 6);
  const auto memory = random.tensor<4>({2, 3, 4, 6});
  const CView<3> x = memory.view().select(1, 1), residual = memory.view().select(1, 2);
  expect_near(forward(layer, x), norm_reference(layer, to_double(x)), 1e-6);
  expect_near(forward_sum(layer, x, residual), norm_reference(layer, sum_reference(to_double(x), to_double(residual))),
              1e-6);
}

TEST_P(LayerNormForward, GivesTheSameBitsWithAnyNumberOfThreads) {
  Random random(6);
  const LayerNorm layer = random_norm(random, 50);
  const auto x = random.tensor<3>({3, 101, 50});
  const auto expected = forward(layer, x, {.executor = &calling_thread_executor()});
  TbbExecutor executor(4);
  expect_same_bits(forward(layer, x, {.executor = &executor}), expected);
}

INSTANTIATE_TEST_SUITE_P(Targets, LayerNormForward, testing::ValuesIn(kernels::supported_targets()),
                         OnEveryTarget::name);

TEST(LayerNorm, RefusesAnInputOfAnotherWidth) {
  Random random(7);
  const LayerNorm layer = random_norm(random, 6);
  const Tensor<float, 3> x({1, 1, 5}, 0);
  EXPECT_THAT(invalid([&] { forward(layer, x); }), holds("layer_norm: x.shape[2] (embed_dim): got 5, expected 6"));
}

TEST(LayerNorm, RefusesAResidualOfAnotherShape) {
  Random random(8);
  const LayerNorm layer = random_norm(random, 6);
  const Tensor<float, 3> x({1, 2, 6}, 0), residual({1, 3, 6}, 0);
  EXPECT_THAT(invalid([&] { forward_sum(layer, x, residual); }),
              holds("layer_norm: residual.shape", "got [1, 3, 6], expected [1, 2, 6]"));
}

TEST(LayerNorm, RefusesABadLayer) {
  Random random(9);
  const Tensor<float, 3> x({1, 1, 6}, 0);
  LayerNorm layer = random_norm(random, 6);
  layer.bias = Tensor<float, 1>({5}, 0);
  EXPECT_THAT(invalid([&] { forward(layer, x); }), holds("layer_norm: bias.shape[0]", "got 5, expected 6"));
  layer.bias.reset();
  layer.eps = -1;
  EXPECT_THAT(invalid([&] { forward(layer, x); }), holds("layer_norm: eps: got -1, expected"));
  EXPECT_THAT(invalid([&] { forward(LayerNorm{}, x); }), holds("layer_norm: weight.shape[0]", "got 0, expected >= 1"));
}

TEST(LayerNorm, RefusesALastAxisWithAStride) {
  Random random(10);
  const LayerNorm layer = random_norm(random, 4);
  const Tensor<float, 4> memory({1, 4, 4, 2}, 0);
  const CView<3> x = memory.view().select(3, 0);
  EXPECT_THAT(invalid([&] { forward(layer, x); }), holds("layer_norm: x.stride[2]", "got 2, expected 1"));
}

}  // namespace
}  // namespace qkv::test
