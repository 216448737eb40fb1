#include "qkv/nn/linear.h"

#include "nn/layer_support.h"
#include "support/poison.h"

namespace qkv::test {
namespace {

TEST(Linear, GivesHandComputedValues) {
  const Linear layer{.weight = tensor_of<2>({2, 3}, {1, 2, 3, 0, -1, 1}), .bias = tensor_of<1>({2}, {10, 20})};
  const auto out = forward(layer, tensor_of<3>({1, 2, 3}, {1, 1, 1, 2, 0, -1}));
  EXPECT_EQ(values(out), (std::vector<float>{16, 20, 9, 19}));
}

TEST(Linear, WithoutBiasEqualsAZeroBiasBitForBit) {
  Random random(1);
  Linear layer = random_linear(random, 9, 13, false);
  const auto x = random.tensor<3>({2, 5, 13});
  const auto out = forward(layer, x);
  layer.bias = Tensor<float, 1>({9}, 0);
  expect_same_bits(forward(layer, x), out);
}

struct LinearShape {
  Index batch, len, in_dim, out_dim;
};

// Shapes around the sizes that a SIMD kernel cuts at.
TEST(Linear, AgreesWithDoubleForOddShapes) {
  const std::vector<LinearShape> shapes{{1, 1, 1, 1},    {1, 7, 8, 3},    {3, 5, 59, 17},   {2, 16, 64, 64},
                                        {1, 25, 33, 48}, {2, 49, 96, 31}, {1, 97, 129, 65}, {1, 203, 40, 113}};
  for (const auto& s : shapes) {
    Random random(static_cast<std::uint64_t>(s.in_dim));
    const Linear layer = random_linear(random, s.out_dim, s.in_dim);
    const auto x = random.tensor<3>({s.batch, s.len, s.in_dim});
    SCOPED_TRACE(to_string<3>(x.shape()));
    expect_near(forward(layer, x), linear_reference(layer, to_double(x.view())), 4e-6);
  }
}

TEST(Linear, AppliesEachActivation) {
  Random random(2);
  const Linear layer = random_linear(random, 37, 21);
  auto x = random.tensor<3>({2, 11, 21});
  for (Index n = 0; n < 21; ++n) x(0, 0, n) *= 30;  // far out, where the exponentials saturate
  for (Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGeluErf, Activation::kGeluTanh}) {
    Tensor<float, 3> out({2, 11, 37}, kNaN);
    linear_into(layer, out, x, activation);
    SCOPED_TRACE(static_cast<int>(activation));
    expect_near(out, linear_reference(layer, to_double(x.view()), activation), 4e-5);
  }
}

// The two GELUs differ by up to 4.7e-4, so weights trained with one need that one:
// https://github.com/kyutai-labs/pocket-tts/pull/278
TEST(Linear, TellsTheTwoGelusApart) {
  const Linear layer = identity_linear(1);
  const auto x = tensor_of<3>({1, 2, 1}, {1, 2.7f});
  Tensor<float, 3> erf({1, 2, 1}), tanh({1, 2, 1});
  linear_into(layer, erf, x, Activation::kGeluErf);
  linear_into(layer, tanh, x, Activation::kGeluTanh);
  EXPECT_NEAR(erf(0, 0, 0), 0.841345, 1e-6);
  EXPECT_NEAR(tanh(0, 0, 0), 0.841192, 1e-6);
  EXPECT_NEAR(tanh(0, 1, 0) - erf(0, 1, 0), 2.7 * 0.000172, 2e-5);
}

TEST(Linear, ReadsStridedInputWithoutTouchingTheGaps) {
  Random random(3);
  const Linear layer = random_linear(random, 10, 6);
  for (Layout layout : {Layout::kPacked, Layout::kInterleaved, Layout::kCacheSlice, Layout::kBroadcastBatch}) {
    const PoisonedTensor memory({3, 4, 5, 6}, layout);
    for (Index b = 0; b < 3; ++b)
      for (Index h = 0; h < 4; ++h)
        for (Index i = 0; i < 5; ++i)
          for (Index d = 0; d < 6; ++d) memory.view()(b, h, i, d) = random.normal();
    const CView<3> x = memory.view().select(1, 2);  // [3, 5, 6], rows far apart
    SCOPED_TRACE(static_cast<int>(layout));
    expect_near(forward(layer, x), linear_reference(layer, to_double(x)), 4e-6);
  }
}

TEST(Linear, WritesStridedOutputAndNothingElse) {
  Random random(4);
  const Linear layer = random_linear(random, 5, 6);
  const auto x = random.tensor<3>({2, 3, 6});
  Tensor<float, 4> memory({2, 3, 3, 5}, 7);
  const View<3> out = memory.view().select(2, 1);
  linear_into(layer, out, x, Activation::kNone);
  const auto expected = forward(layer, x);
  for (Index b = 0; b < 2; ++b)
    for (Index i = 0; i < 3; ++i)
      for (Index d = 0; d < 5; ++d) {
        EXPECT_EQ(memory(b, i, 0, d), 7);
        EXPECT_NEAR(memory(b, i, 1, d), expected(b, i, d), 1e-6);
        EXPECT_EQ(memory(b, i, 2, d), 7);
      }
}

TEST(Linear, GivesTheSameBitsWithAnyNumberOfThreads) {
  Random random(5);
  const Linear layer = random_linear(random, 130, 70);
  const auto x = random.tensor<3>({3, 67, 70});
  const auto expected = forward(layer, x, {.executor = &calling_thread_executor()});
  for (Index num_threads : {1, 2, 4}) {
    TbbExecutor executor(num_threads);
    expect_same_bits(forward(layer, x, {.executor = &executor}), expected);
  }
}

TEST(Linear, AcceptsEmptyBatchesAndLengths) {
  const Linear layer = identity_linear(4);
  EXPECT_EQ(forward(layer, Tensor<float, 3>({0, 3, 4})).shape(), (Shape<3>{0, 3, 4}));
  EXPECT_EQ(forward(layer, Tensor<float, 3>({2, 0, 4})).shape(), (Shape<3>{2, 0, 4}));
}

TEST(Linear, RefusesAnInputOfAnotherWidth) {
  const Linear layer = identity_linear(4);
  const Tensor<float, 3> x({1, 2, 5}, 0);
  EXPECT_THAT(invalid([&] { forward(layer, x); }), holds("linear: x.shape[2] (in_dim): got 5, expected 4"));
}

TEST(Linear, RefusesABiasOfAnotherLength) {
  Linear layer = identity_linear(4);
  layer.bias = Tensor<float, 1>({3}, 0);
  const Tensor<float, 3> x({1, 2, 4}, 0);
  EXPECT_THAT(invalid([&] { forward(layer, x); }), holds("linear: bias.shape[0]", "got 3, expected 4"));
}

TEST(Linear, RefusesALayerWithoutWeights) {
  const Tensor<float, 3> x({1, 2, 4}, 0);
  EXPECT_THAT(invalid([&] { forward(Linear{}, x); }), holds("linear: weight.shape[0]", "got 0, expected >= 1"));
}

TEST(Linear, RefusesALastAxisWithAStride) {
  const Tensor<float, 4> memory({1, 4, 4, 2}, 0);
  const CView<3> x = memory.view().select(3, 0);
  EXPECT_THAT(invalid([&] { forward(identity_linear(4), x); }), holds("linear: x.stride[2]", "got 2, expected 1"));
}

TEST(Linear, RefusesAnOutputOfAnotherShapeAndWritesNothing) {
  const Tensor<float, 3> x({1, 2, 4}, 0);
  Tensor<float, 3> out({1, 3, 4}, 7);
  EXPECT_THAT(invalid([&] { linear_into(identity_linear(4), out, x, Activation::kNone); }),
              holds("linear: out.shape", "got [1, 3, 4], expected [1, 2, 4]"));
  EXPECT_THAT(values(out), ::testing::Each(7));
}

}  // namespace
}  // namespace qkv::test
