#include "qkv/nn/init.h"

#include <algorithm>

#include "nn/layer_support.h"

namespace qkv::test {
namespace {

using ::testing::HasSubstr;

// Mean and variance are those of the uniform distribution, within four standard errors, and its ends are reached.
template <int Rank>
void expect_uniform(const Tensor<float, Rank>& x, double bound) {
  const auto count = static_cast<double>(x.size());
  double sum = 0, squares = 0;
  for (Index n = 0; n < x.size(); ++n) {
    sum += x.data()[n];
    squares += static_cast<double>(x.data()[n]) * x.data()[n];
  }
  EXPECT_NEAR(sum / count, 0, 4 * bound / std::sqrt(3 * count));
  EXPECT_NEAR(squares / count, bound * bound / 3, 4 * bound * bound * std::sqrt(4.0 / 45 / count));
  const auto [low, high] = std::minmax_element(x.data(), x.data() + x.size());
  EXPECT_GE(*low, -bound);
  EXPECT_LE(*high, bound);
  EXPECT_LT(*low, -bound * (1 - 20 / count));
  EXPECT_GT(*high, bound * (1 - 20 / count));
}

TEST(MakeLinear, IsUniformWithinOneOverTheRootOfItsInputs) {
  RandomStream random(1);
  const Linear layer = make_linear({.in_dim = 100, .out_dim = 2000}, random);
  EXPECT_EQ(layer.weight.shape(), (Shape<2>{2000, 100}));
  EXPECT_EQ(layer.bias->shape(), (Shape<1>{2000}));
  expect_uniform(layer.weight, 0.1);
  expect_uniform(*layer.bias, 0.1);
}

// From the published layout, by hand: number n is the upper 24 bits of word n of philox4x32({0, 0, 0, 0}, {0, 0}), and
// 1/sqrt(4) is exact.
TEST(MakeLinear, GivesTheSameNumbersOnEveryMachine) {
  RandomStream random(0);
  const Linear layer = make_linear({.in_dim = 4, .out_dim = 1}, random);
  const auto expected = [](std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f - 0.5f; };
  EXPECT_EQ(values(layer.weight), (std::vector<float>{expected(0x6627e8d5), expected(0xe169c58d), expected(0xbc57ac4c),
                                                      expected(0x9b00dbd8)}));
  EXPECT_EQ((*layer.bias)(0), expected(philox4x32({1, 0, 0, 0}, {0, 0})[0]));
}

TEST(MakeLinear, WithoutBiasHasNone) {
  RandomStream random(1);
  EXPECT_FALSE(make_linear({.in_dim = 2, .out_dim = 3, .bias = false}, random).bias.has_value());
}

TEST(MakeLinear, GivesEachLayerNumbersOfItsOwn) {
  RandomStream random(1), same(1), other(2);
  const Linear first = make_linear({.in_dim = 8, .out_dim = 8}, random);
  const Linear second = make_linear({.in_dim = 8, .out_dim = 8}, random);
  expect_same_bits(make_linear({.in_dim = 8, .out_dim = 8}, same).weight, first.weight);
  EXPECT_NE(values(second.weight), values(first.weight));
  EXPECT_NE(values(make_linear({.in_dim = 8, .out_dim = 8}, other).weight), values(first.weight));
}

TEST(MakeLinear, RefusesSizesBelowOne) {
  RandomStream random(1);
  EXPECT_THAT(invalid([&] { make_linear({.in_dim = 0, .out_dim = 3}, random); }),
              HasSubstr("make_linear: in_dim: got 0, expected >= 1"));
  EXPECT_THAT(invalid([&] { make_linear({.in_dim = 3, .out_dim = -1}, random); }),
              HasSubstr("make_linear: out_dim: got -1, expected >= 1"));
}

TEST(MakeMultiHeadAttention, FollowsFromTheWidthAndTheNumberOfHeads) {
  RandomStream random(1);
  const auto layer = make_multi_head_attention({.embed_dim = 12, .num_heads = 3}, random);
  for (const Linear* projection : {&layer.q_proj, &layer.k_proj, &layer.v_proj, &*layer.out_proj}) {
    EXPECT_EQ(projection->weight.shape(), (Shape<2>{12, 12}));
    EXPECT_TRUE(projection->bias.has_value());
  }
  EXPECT_EQ(layer.num_heads, 3);
  const Tensor<float, 3> x({2, 5, 12}, 0.5f);
  EXPECT_EQ(forward(layer, x, x, x).out.shape(), (Shape<3>{2, 5, 12}));
}

// The README's system A, with the sizes of its example.
TEST(MakeMultiHeadAttention, MakesASelfAttentionWithoutOutputProjection) {
  RandomStream random(1);
  const auto layer =
      make_multi_head_attention({.embed_dim = 20, .num_heads = 2, .query_dim = 10, .out_proj = false}, random);
  EXPECT_EQ(layer.v_proj.weight.shape(), (Shape<2>{20, 10}));
  EXPECT_FALSE(layer.out_proj.has_value());
  const Tensor<float, 3> x({32, 20, 10}, 0.5f);
  EXPECT_EQ(forward(layer, x, x, x).out.shape(), (Shape<3>{32, 20, 20}));
}

// System C: widths of query, key and value that differ, no biases.
TEST(MakeMultiHeadAttention, TakesWidthsOfItsInputs) {
  RandomStream random(1);
  const MultiHeadAttentionShape shape{
      .embed_dim = 20, .num_heads = 5, .query_dim = 6, .key_dim = 7, .value_dim = 9, .bias = false};
  const auto layer = make_multi_head_attention(shape, random);
  EXPECT_EQ(layer.q_proj.weight.shape(), (Shape<2>{20, 6}));
  EXPECT_EQ(layer.k_proj.weight.shape(), (Shape<2>{20, 7}));
  EXPECT_EQ(layer.v_proj.weight.shape(), (Shape<2>{20, 9}));
  EXPECT_EQ(layer.out_proj->weight.shape(), (Shape<2>{20, 20}));
  EXPECT_FALSE(layer.k_proj.bias || layer.out_proj->bias);
  expect_uniform(layer.k_proj.weight, 1 / std::sqrt(7.0));  // the bound is that of the projection's own inputs
}

TEST(MakeMultiHeadAttention, TakesHeadsOfAnyWidthAndNumber) {
  RandomStream random(1);
  const MultiHeadAttentionShape shape{
      .embed_dim = 10, .num_heads = 4, .num_kv_heads = 2, .head_dim = 3, .v_head_dim = 5};
  const auto layer = make_multi_head_attention(shape, random);
  EXPECT_EQ(layer.q_proj.weight.shape(), (Shape<2>{12, 10}));
  EXPECT_EQ(layer.k_proj.weight.shape(), (Shape<2>{6, 10}));
  EXPECT_EQ(layer.v_proj.weight.shape(), (Shape<2>{10, 10}));
  EXPECT_EQ(layer.out_proj->weight.shape(), (Shape<2>{10, 20}));
  const Tensor<float, 3> x({1, 3, 10}, 0.5f);
  EXPECT_EQ(forward(layer, x, x, x).out.shape(), (Shape<3>{1, 3, 10}));
}

// System B's second reading: (embed_dim / num_heads)^2 numbers for each head.
TEST(MakeMultiHeadAttention, MakesProjectionsOfSlices) {
  RandomStream random(1);
  const MultiHeadAttentionShape shape{
      .embed_dim = 12, .num_heads = 4, .num_kv_heads = 2, .head_split = HeadSplit::kSplitThenProject};
  const auto layer = make_multi_head_attention(shape, random);
  EXPECT_EQ(layer.q_proj.weight.shape(), (Shape<2>{12, 3}));
  EXPECT_EQ(layer.k_proj.weight.shape(), (Shape<2>{6, 6}));
  EXPECT_EQ(layer.v_proj.weight.shape(), (Shape<2>{6, 6}));
  const Tensor<float, 3> x({1, 3, 12}, 0.5f);
  EXPECT_EQ(forward(layer, x, x, x).out.shape(), (Shape<3>{1, 3, 12}));
}

TEST(MakeMultiHeadAttention, KeepsTheDropout) {
  RandomStream random(1);
  EXPECT_EQ(make_multi_head_attention({.embed_dim = 4, .dropout = 0.1}, random).dropout, 0.1);
}

TEST(MakeAdditiveWeights, AreThoseOfThreeLinearLayersWithoutBias) {
  RandomStream random(1);
  auto layer = make_multi_head_attention({.embed_dim = 24, .num_heads = 3}, random);
  layer.scoring = make_additive_weights({.hidden_dim = 500, .head_dim = 8}, random);
  const auto& weights = std::get<AdditiveWeights>(layer.scoring);
  EXPECT_EQ(weights.w_q.shape(), (Shape<2>{500, 8}));
  expect_uniform(weights.w_q, 1 / std::sqrt(8.0));
  expect_uniform(weights.w_k, 1 / std::sqrt(8.0));
  expect_uniform(weights.w_v, 1 / std::sqrt(500.0));
  EXPECT_NE(values(weights.w_q), values(weights.w_k));
  const Tensor<float, 3> x({1, 3, 24}, 0.5f);
  EXPECT_EQ(forward(layer, x, x, x).out.shape(), (Shape<3>{1, 3, 24}));

  const auto wide = make_additive_weights({.hidden_dim = 5, .head_dim = 8, .k_head_dim = 6}, random);
  EXPECT_EQ(wide.w_k.shape(), (Shape<2>{5, 6}));
}

TEST(MakeAdditiveWeights, RefuseSizesBelowOne) {
  RandomStream random(1);
  EXPECT_THAT(invalid([&] { make_additive_weights({.hidden_dim = 0, .head_dim = 8}, random); }),
              HasSubstr("make_additive_weights: hidden_dim: got 0, expected >= 1"));
  EXPECT_THAT(invalid([&] { make_additive_weights({.hidden_dim = 5, .head_dim = 0}, random); }),
              HasSubstr("head_dim: got 0, expected >= 1"));
  EXPECT_THAT(invalid([&] { make_additive_weights({.hidden_dim = 5, .head_dim = 8, .k_head_dim = -1}, random); }),
              HasSubstr("k_head_dim: got -1, expected >= 1"));
}

TEST(MakeMultiHeadAttention, RefusesSizesThatDoNotDivide) {
  const auto refusal = [](const MultiHeadAttentionShape& shape) {
    return invalid([&] {
      RandomStream random(1);
      make_multi_head_attention(shape, random);
    });
  };
  EXPECT_THAT(refusal({.embed_dim = 20, .num_heads = 3}),
              HasSubstr("make_multi_head_attention: embed_dim: got 20, expected a multiple of num_heads = 3"));
  EXPECT_THAT(refusal({.embed_dim = 20, .num_heads = 0}), HasSubstr("num_heads: got 0, expected >= 1"));
  EXPECT_THAT(refusal({.embed_dim = 20, .num_heads = 4, .num_kv_heads = 3}),
              HasSubstr("num_kv_heads: got 3, expected a divisor of num_heads = 4"));
  EXPECT_THAT(refusal({.embed_dim = 20, .num_heads = 4, .num_kv_heads = 0}), HasSubstr("num_kv_heads: got 0"));
  const auto slices = HeadSplit::kSplitThenProject;
  EXPECT_THAT(refusal({.embed_dim = 20, .num_heads = 4, .query_dim = 10, .head_split = slices}),
              HasSubstr("query_dim: got 10, expected a multiple of its 4 heads"));
  EXPECT_THAT(refusal({.embed_dim = 20, .num_heads = 4, .num_kv_heads = 2, .value_dim = 9, .head_split = slices}),
              HasSubstr("value_dim: got 9, expected a multiple of its 2 heads"));
  EXPECT_THAT(refusal({.embed_dim = 20, .num_heads = 4, .dropout = 1.5}),
              HasSubstr("dropout: got 1.5, expected a probability, 0 to 1"));
  EXPECT_THAT(refusal({.embed_dim = 20, .num_heads = 4, .key_dim = 0}), HasSubstr("key_dim: got 0, expected >= 1"));
  EXPECT_THAT(refusal({.embed_dim = 0, .num_heads = 4}), HasSubstr("embed_dim: got 0"));
  EXPECT_THAT(refusal({.embed_dim = 4, .num_heads = 4, .head_dim = -1}), HasSubstr("head_dim: got -1"));
}

}  // namespace
}  // namespace qkv::test
