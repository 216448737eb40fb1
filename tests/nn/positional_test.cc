#include "qkv/nn/positional.h"

#include "nn/layer_support.h"
#include "qkv/nn/embedding.h"
#include "support/poison.h"

namespace qkv::test {
namespace {

TEST(SinusoidalPositions, GiveHandComputedValues) {
  // embed_dim 4: angles p and p / 100.
  const auto layer = sinusoidal_positions(3, 4);
  expect_near(layer.weight,
              tensor_of<2>({3, 4}, {0, 1, 0, 1,                                   //
                                    0.841471f, 0.540302f, 0.00999983f, 0.99995f,  //
                                    0.909297f, -0.416147f, 0.0199987f, 0.9998f}),
              1e-6);
}

TEST(SinusoidalPositions, FollowTheFormulaFarOutAndForOddWidths) {
  for (Index embed_dim : {1, 7, 32}) {
    const auto layer = sinusoidal_positions(5000, embed_dim);
    for (Index p : {0, 1, 77, 4999})
      for (Index n = 0; 2 * n < embed_dim; ++n) {
        const double angle =
            static_cast<double>(p) / std::pow(10000.0, 2.0 * static_cast<double>(n) / static_cast<double>(embed_dim));
        EXPECT_NEAR(layer.weight(p, 2 * n), std::sin(angle), 1e-6);
        if (2 * n + 1 < embed_dim) {
          EXPECT_NEAR(layer.weight(p, 2 * n + 1), std::cos(angle), 1e-6);
        }
      }
  }
}

// What the encoding is for: the product of two positions depends on their distance only.
TEST(SinusoidalPositions, ProductsDependOnTheDistanceOnly) {
  const auto layer = sinusoidal_positions(200, 64);
  const auto product = [&](Index p, Index other) {
    double sum = 0;
    for (Index d = 0; d < 64; ++d) sum += layer.weight(p, d) * layer.weight(other, d);
    return sum;
  };
  for (Index distance : {0, 1, 10, 90}) EXPECT_NEAR(product(3, 3 + distance), product(103, 103 + distance), 2e-5);
  EXPECT_NEAR(product(5, 5), 32, 1e-5);
}

TEST(SinusoidalPositions, RefuseSizesThatMakeNoTable) {
  EXPECT_EQ(sinusoidal_positions(0, 4).weight.shape(), (Shape<2>{0, 4}));
  EXPECT_THAT(invalid([] { sinusoidal_positions(-1, 4); }), holds("sinusoidal_positions: max_len: got -1"));
  EXPECT_THAT(invalid([] { sinusoidal_positions(4, 0); }), holds("embed_dim: got 0, expected >= 1"));
}

TEST(PositionalEncoding, AddsTheVectorOfEachPositionInEveryBatchEntry) {
  const PositionalEncoding learned{.weight = tensor_of<2>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8})};
  const auto x = tensor_of<3>({2, 2, 2}, {10, 20, 30, 40, 50, 60, 70, 80});
  EXPECT_EQ(values(forward(learned, x)), (std::vector<float>{11, 22, 33, 44, 51, 62, 73, 84}));
  EXPECT_EQ(values(forward(learned, x, 2)), (std::vector<float>{15, 26, 37, 48, 55, 66, 77, 88}));
}

TEST(PositionalEncoding, MakesEqualWordsDifferent) {
  Random random(1);
  const Embedding words{.weight = random.tensor<2>({10, 8})};
  const std::vector<std::int32_t> tokens{3, 5, 3};
  const auto x = forward(words, TensorView<const std::int32_t, 2>(tokens.data(), {1, 3}));
  const auto out = forward(sinusoidal_positions(16, 8), x);
  EXPECT_EQ(x(0, 0, 0), x(0, 2, 0));
  EXPECT_NE(out(0, 0, 0), out(0, 2, 0));
}

TEST(PositionalEncoding, ReadsAnyStride) {
  Random random(2);
  const auto packed = random.tensor<3>({2, 6, 5});
  const CView<3> swapped = packed.view().swap_axes(1, 2);  // [2, 5, 6]
  const PositionalEncoding layer{.weight = random.tensor<2>({5, 6})};
  const auto out = forward(layer, swapped);
  for (Index b = 0; b < 2; ++b)
    for (Index i = 0; i < 5; ++i)
      for (Index d = 0; d < 6; ++d) EXPECT_EQ(out(b, i, d), packed(b, d, i) + layer.weight(i, d));
}

TEST(PositionalEncoding, RefusesPositionsItHasNoVectorFor) {
  const auto layer = sinusoidal_positions(8, 4);
  const Tensor<float, 3> x({1, 6, 4}, 0), wide({1, 6, 5}, 0);
  EXPECT_EQ(forward(layer, x, 2).shape(), (Shape<3>{1, 6, 4}));
  EXPECT_THAT(invalid([&] { forward(layer, x, 3); }), holds("positional_encoding: x.shape[1] (len): got 6", "8 - 3"));
  EXPECT_THAT(invalid([&] { forward(layer, x, 9); }), holds("got 6", "8 - 9"));
  EXPECT_THAT(invalid([&] { forward(layer, x, -1); }), holds("q_start: got -1, expected >= 0"));
  EXPECT_THAT(invalid([&] { forward(layer, wide); }), holds("x.shape[2] (embed_dim): got 5, expected 4"));
}

}  // namespace
}  // namespace qkv::test
