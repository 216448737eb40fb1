#include "qkv/nn/parameters.h"

#include "nn/layer_support.h"

namespace qkv::test {
namespace {

using ::testing::ElementsAre;

template <class Layer>
std::vector<std::string> names_of(const Layer& layer, const std::string& prefix = "") {
  std::vector<std::string> result;
  for (const auto& parameter : parameters(layer, prefix)) result.push_back(parameter.name);
  return result;
}

MultiHeadAttention attention_without_bias(Random& random) {
  return {.q_proj = random_linear(random, 4, 4, false),
          .k_proj = random_linear(random, 4, 4, false),
          .v_proj = random_linear(random, 4, 4, false)};
}

TEST(Parameters, OfALinearLayerAreItsTensors) {
  Random random(1);
  Linear layer = random_linear(random, 2, 3);
  const auto list = parameters(layer);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].name, "weight");
  EXPECT_THAT(list[0].shape, ElementsAre(2, 3));
  EXPECT_EQ(list[0].values, layer.weight.data());
  EXPECT_EQ(list[1].name, "bias");
  EXPECT_THAT(list[1].shape, ElementsAre(2));
  EXPECT_EQ(list[1].values, layer.bias->data());
}

TEST(Parameters, ThatALayerDoesNotHaveAreLeftOut) {
  Random random(2);
  EXPECT_THAT(names_of(random_linear(random, 2, 3, false)), ElementsAre("weight"));
  EXPECT_THAT(names_of(LayerNorm{.weight = random.tensor<1>({4})}), ElementsAre("weight"));
  EXPECT_THAT(names_of(attention_without_bias(random)), ElementsAre("q_proj.weight", "k_proj.weight", "v_proj.weight"));
}

TEST(Parameters, OfTables) {
  Random random(3);
  EXPECT_THAT(names_of(Embedding{.weight = random.tensor<2>({5, 4})}, "words."), ElementsAre("words.weight"));
  EXPECT_THAT(names_of(PositionalEncoding{.weight = random.tensor<2>({5, 4})}), ElementsAre("weight"));
}

TEST(Parameters, OfAFixedTableAreNone) {
  EXPECT_THAT(names_of(sinusoidal_positions(5, 4)), ElementsAre());
}

TEST(Parameters, OfAttentionHoldThoseOfItsScoring) {
  Random random(6);
  auto layer = attention_without_bias(random);
  layer.scoring = AdditiveWeights{random.tensor<2>({5, 2}), random.tensor<2>({5, 2}), random.tensor<1>({5})};
  EXPECT_THAT(names_of(layer, "a."), ElementsAre("a.q_proj.weight", "a.k_proj.weight", "a.v_proj.weight",
                                                 "a.scoring.w_q", "a.scoring.w_k", "a.scoring.w_v"));
}

TEST(Parameters, OfABlockAreNamedByItsPartsInTheirOrder) {
  Random random(4);
  TransformerBlock block{
      .attention = attention_without_bias(random),
      .attention_norm = random_norm(random, 4),
      .feed_forward = {.up_proj = random_linear(random, 6, 4), .down_proj = random_linear(random, 4, 6)},
      .feed_forward_norm = random_norm(random, 4)};
  block.attention.out_proj = random_linear(random, 4, 4);
  EXPECT_THAT(
      names_of(block, "blocks.3."),
      ElementsAre("blocks.3.attention.q_proj.weight", "blocks.3.attention.k_proj.weight",
                  "blocks.3.attention.v_proj.weight", "blocks.3.attention.out_proj.weight",
                  "blocks.3.attention.out_proj.bias", "blocks.3.attention_norm.weight", "blocks.3.attention_norm.bias",
                  "blocks.3.feed_forward.up_proj.weight", "blocks.3.feed_forward.up_proj.bias",
                  "blocks.3.feed_forward.down_proj.weight", "blocks.3.feed_forward.down_proj.bias",
                  "blocks.3.feed_forward_norm.weight", "blocks.3.feed_forward_norm.bias"));
}

TEST(Parameters, OfAConstLayerCannotBeChanged) {
  Linear layer;
  const Linear& same = layer;
  static_assert(std::is_same_v<decltype(parameters(layer)), std::vector<Parameter<float>>>);
  static_assert(std::is_same_v<decltype(parameters(same)), std::vector<Parameter<const float>>>);
  EXPECT_EQ(parameters(layer).size(), parameters(same).size());
}

}  // namespace
}  // namespace qkv::test
