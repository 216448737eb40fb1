#include "qkv/nn/norm.h"

#include "nn/layer_support.h"
#include "support/poison.h"

namespace qkv::test {
namespace {

TEST(LayerNorm, GivesHandComputedValues) {
  const LayerNorm layer{.weight = tensor_of<1>({2}, {2, 3}), .bias = tensor_of<1>({2}, {10, 20}), .eps = 0};
  const auto out = forward(layer, tensor_of<3>({1, 1, 2}, {5, 9}));  // mean 7, deviation 2
  EXPECT_EQ(values(out), (std::vector<float>{8, 23}));
}

TEST(LayerNorm, AgreesWithDoubleForOddWidths) {
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
TEST(LayerNorm, KeepsSmallDeviationsOfALargeMean) {
  LayerNorm layer{.weight = Tensor<float, 1>({4}, 1)};
  layer.eps = 0;
  const auto out = forward(layer, tensor_of<3>({1, 1, 4}, {10001, 9999, 10001, 9999}));
  EXPECT_EQ(values(out), (std::vector<float>{1, -1, 1, -1}));
}

TEST(LayerNorm, GivesTheBiasForARowOfEqualValues) {
  Random random(2);
  const LayerNorm layer = random_norm(random, 9, 1e-12);
  const auto out = forward(layer, Tensor<float, 3>({1, 1, 9}, 0.1f));
  EXPECT_EQ(values(out), values(*layer.bias));
}

TEST(LayerNorm, KeepsNanInItsRow) {
  Random random(3);
  const LayerNorm layer = random_norm(random, 6);
  auto x = random.tensor<3>({1, 3, 6});
  x(0, 1, 4) = kNaN;
  const auto out = forward(layer, x);
  for (Index d = 0; d < 6; ++d) {
    EXPECT_TRUE(std::isfinite(out(0, 0, d)));
    EXPECT_TRUE(std::isnan(out(0, 1, d)));
    EXPECT_TRUE(std::isfinite(out(0, 2, d)));
  }
}

TEST(LayerNorm, AddsTheResidualBeforeItNormalises) {
  Random random(4);
  const LayerNorm layer = random_norm(random, 11);
  const auto x = random.tensor<3>({2, 5, 11}), residual = random.tensor<3>({2, 5, 11});
  const auto sum = sum_reference(to_double(x.view()), to_double(residual.view()));
  expect_near(forward_sum(layer, x, residual), norm_reference(layer, sum), 1e-6);
}

TEST(LayerNorm, ReadsStridedInput) {
  Random random(5);
  const LayerNorm layer = random_norm(random, 6);
  const auto memory = random.tensor<4>({2, 3, 4, 6});
  const CView<3> x = memory.view().select(1, 1), residual = memory.view().select(1, 2);
  expect_near(forward(layer, x), norm_reference(layer, to_double(x)), 1e-6);
  expect_near(forward_sum(layer, x, residual), norm_reference(layer, sum_reference(to_double(x), to_double(residual))),
              1e-6);
}

TEST(LayerNorm, GivesTheSameBitsWithAnyNumberOfThreads) {
  Random random(6);
  const LayerNorm layer = random_norm(random, 50);
  const auto x = random.tensor<3>({3, 101, 50});
  const auto expected = forward(layer, x, {.executor = &calling_thread_executor()});
  TbbExecutor executor(4);
  expect_same_bits(forward(layer, x, {.executor = &executor}), expected);
}

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
