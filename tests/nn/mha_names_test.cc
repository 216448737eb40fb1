#include "qkv/nn/mha_names.h"

#include "nn/state_dict_support.h"

namespace qkv::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Widths {
  Index query = 6, key = 6, value = 6;
};

// Two heads of width 3, with and without biases and output projection.
MultiHeadAttention random_attention(std::uint64_t seed, bool has_bias = true, bool has_out_proj = true,
                                    const Widths& widths = {}) {
  Random random(seed);
  MultiHeadAttention layer{.q_proj = random_linear(random, 6, widths.query, has_bias),
                           .k_proj = random_linear(random, 6, widths.key, has_bias),
                           .v_proj = random_linear(random, 6, widths.value, has_bias),
                           .num_heads = 2};
  if (has_out_proj) layer.out_proj = random_linear(random, 6, 6, has_bias);
  return layer;
}

// Saves under foreign names, loads into a layer of zeros, and compares all bits.
void expect_round_trip(MhaNames kind, bool has_bias, bool has_out_proj, const Widths& widths = {}) {
  const auto layer = random_attention(1, has_bias, has_out_proj, widths);
  auto loaded = blank(random_attention(2, has_bias, has_out_proj, widths));
  load_state_dict(loaded, kind, state_dict(layer, kind, "x."), {.prefix = "x."});
  expect_same_state(state_dict(loaded), state_dict(layer));
}

TEST(MhaNames, RoundTripsChangeNoBit) {
  for (const bool has_bias : {true, false}) {
    for (const auto kind : {MhaNames::kOurs, MhaNames::kPytorch, MhaNames::kD2l, MhaNames::kBert}) {
      SCOPED_TRACE(static_cast<int>(kind));
      expect_round_trip(kind, has_bias, true);
      expect_round_trip(kind, has_bias, true, {.key = 3, .value = 5});
    }
    for (const auto kind : {MhaNames::kOurs, MhaNames::kQueryLayer}) expect_round_trip(kind, has_bias, false);
  }
}

TEST(MhaNames, OfD2l) {
  EXPECT_THAT(names(state_dict(random_attention(1), MhaNames::kD2l)),
              ElementsAre("W_k.bias", "W_k.weight", "W_o.bias", "W_o.weight", "W_q.bias", "W_q.weight", "W_v.bias",
                          "W_v.weight"));
  EXPECT_THAT(
      names(state_dict(random_attention(1, false), MhaNames::kD2l, "attention.")),
      ElementsAre("attention.W_k.weight", "attention.W_o.weight", "attention.W_q.weight", "attention.W_v.weight"));
}

TEST(MhaNames, OfASelfAttentionWithoutOutputProjection) {
  EXPECT_THAT(names(state_dict(random_attention(1, true, false), MhaNames::kQueryLayer)),
              ElementsAre("key_layer.bias", "key_layer.weight", "query_layer.bias", "query_layer.weight",
                          "value_layer.bias", "value_layer.weight"));
}

TEST(MhaNames, OfABlockOfBert) {
  EXPECT_THAT(
      names(state_dict(random_attention(1, false), MhaNames::kBert, "encoder.layer.0.")),
      ElementsAre("encoder.layer.0.attention.output.dense.weight", "encoder.layer.0.attention.self.key.weight",
                  "encoder.layer.0.attention.self.query.weight", "encoder.layer.0.attention.self.value.weight"));
}

TEST(MhaNames, OfPytorchPutThreeProjectionsBelowEachOther) {
  MultiHeadAttention layer = blank(random_attention(1));
  std::fill_n(layer.q_proj.weight.data(), 36, 1.f);
  std::fill_n(layer.k_proj.weight.data(), 36, 2.f);
  std::fill_n(layer.v_proj.weight.data(), 36, 3.f);
  std::fill_n(layer.k_proj.bias->data(), 6, 4.f);
  const StateDict state = state_dict(layer, MhaNames::kPytorch);
  EXPECT_THAT(names(state), ElementsAre("in_proj_bias", "in_proj_weight", "out_proj.bias", "out_proj.weight"));
  EXPECT_THAT(state.at("in_proj_weight").shape, ElementsAre(18, 6));
  EXPECT_THAT(state.at("in_proj_bias").shape, ElementsAre(18));
  const auto weight = values(state.at("in_proj_weight")), bias = values(state.at("in_proj_bias"));
  for (std::size_t n = 0; n < 108; ++n) EXPECT_EQ(weight[n], static_cast<float>(1 + n / 36));
  for (std::size_t n = 0; n < 18; ++n) EXPECT_EQ(bias[n], n / 6 == 1 ? 4.f : 0.f);
}

TEST(MhaNames, OfPytorchAreSeparateWhereWidthsDiffer) {
  for (const Widths& widths : {Widths{.key = 3}, Widths{.value = 5}, Widths{.key = 3, .value = 5}}) {
    const StateDict state = state_dict(random_attention(1, true, true, widths), MhaNames::kPytorch);
    EXPECT_THAT(names(state), ElementsAre("in_proj_bias", "k_proj_weight", "out_proj.bias", "out_proj.weight",
                                          "q_proj_weight", "v_proj_weight"));
    EXPECT_THAT(state.at("k_proj_weight").shape, ElementsAre(6, widths.key));
    EXPECT_THAT(state.at("in_proj_bias").shape, ElementsAre(18));
  }
}

TEST(MhaNames, ListAllThatDoesNotFitUnderTheirOwnNames) {
  MultiHeadAttention layer = random_attention(1);
  StateDict state = state_dict(random_attention(2, false), MhaNames::kPytorch);
  state["in_proj_weight"] = entry({18, 5}, std::vector<float>(90));
  state["bias_k"] = entry({1, 1, 6}, std::vector<float>(6));  // add_bias_kv, which qkv does not have
  const StateDict before = state_dict(layer);
  EXPECT_EQ(invalid([&] { load_state_dict(layer, MhaNames::kPytorch, state); }),
            "load_state_dict: entries that do not fit the layer: got 4, expected none: "
            "\"in_proj_weight\" has shape [18, 5], expected [18, 6]; "
            "\"in_proj_bias\" of shape [18] is missing; "
            "\"out_proj.bias\" of shape [6] is missing; "
            "\"bias_k\" of shape [1, 1, 6] is extra");
  expect_same_state(state_dict(layer), before);
}

TEST(MhaNames, LeaveTheRestOfABlockOfBertAloneWhenAllowed) {
  const MultiHeadAttention layer = random_attention(1);
  StateDict state = state_dict(layer, MhaNames::kBert, "encoder.layer.0.");
  state["encoder.layer.0.output.dense.weight"] = entry({1}, {1});
  MultiHeadAttention loaded = blank(random_attention(1));
  load_state_dict(loaded, MhaNames::kBert, state, {.prefix = "encoder.layer.0.", .allow_extra = true});
  expect_same_state(state_dict(loaded), state_dict(layer));
  EXPECT_THAT(invalid([&] { load_state_dict(loaded, MhaNames::kBert, state, {.prefix = "encoder.layer.0."}); }),
              HasSubstr("\"encoder.layer.0.output.dense.weight\" of shape [1] is extra"));
}

TEST(MhaNames, RefuseALayerThatTheyHaveNoPlaceFor) {
  const auto refusal = [](const MultiHeadAttention& layer, MhaNames kind) {
    return invalid([&] { state_dict(layer, kind); });
  };
  EXPECT_THAT(refusal(random_attention(1), MhaNames::kQueryLayer),
              HasSubstr("mha_names: out_proj: got one, expected none"));
  EXPECT_THAT(refusal(random_attention(1, true, false), MhaNames::kPytorch),
              HasSubstr("mha_names: out_proj: got none, expected one"));

  Random random(3);
  MultiHeadAttention wide_values = random_attention(1);
  wide_values.v_proj = random_linear(random, 8, 6);
  EXPECT_THAT(refusal(wide_values, MhaNames::kPytorch), HasSubstr("v_proj.weight.shape[0]: got 8, expected 6"));
  MultiHeadAttention grouped = random_attention(1);
  grouped.k_proj = random_linear(random, 3, 6);
  EXPECT_THAT(refusal(grouped, MhaNames::kPytorch), HasSubstr("k_proj.weight.shape[0]: got 3, expected 6"));
  MultiHeadAttention wide_result = random_attention(1);
  wide_result.out_proj = random_linear(random, 4, 6);
  EXPECT_THAT(refusal(wide_result, MhaNames::kPytorch), HasSubstr("out_proj.weight.shape[0]: got 4, expected 6"));
  EXPECT_THAT(refusal(random_attention(1, true, true, {.query = 5}), MhaNames::kPytorch),
              HasSubstr("q_proj.weight.shape[1]: got 5, expected 6"));
  MultiHeadAttention one_bias = random_attention(1, false);
  one_bias.v_proj.bias = random.tensor<1>({6});
  EXPECT_THAT(refusal(one_bias, MhaNames::kPytorch), HasSubstr("v_proj.bias: got one, expected none as in q_proj"));
}

TEST(MhaNames, OfAdditiveScoringAreOursOnly) {
  const auto additive = [](std::uint64_t seed) {
    Random random(seed);
    auto layer = random_attention(seed);
    layer.scoring = AdditiveWeights{random.tensor<2>({5, 3}), random.tensor<2>({5, 3}), random.tensor<1>({5})};
    return layer;
  };
  auto loaded = blank(additive(2));
  load_state_dict(loaded, MhaNames::kOurs, state_dict(additive(1), MhaNames::kOurs));
  expect_same_state(state_dict(loaded), state_dict(additive(1)));
  for (const auto kind : {MhaNames::kPytorch, MhaNames::kD2l, MhaNames::kBert})
    EXPECT_THAT(invalid([&] { state_dict(additive(1), kind); }), HasSubstr("mha_names: scoring: got additive"));
}

// Weights of slices would pass for those of a layer with narrow inputs, which computes something else.
TEST(MhaNames, OfProjectionsOfSlicesAreOursOnly) {
  auto layer = random_attention(1, true, true, {.query = 2, .key = 2, .value = 2});
  layer.head_split = HeadSplit::kSplitThenProject;
  auto loaded = blank(random_attention(2, true, true, {.query = 2, .key = 2, .value = 2}));
  loaded.head_split = HeadSplit::kSplitThenProject;
  load_state_dict(loaded, MhaNames::kOurs, state_dict(layer, MhaNames::kOurs));
  expect_same_state(state_dict(loaded), state_dict(layer));
  for (const auto kind : {MhaNames::kPytorch, MhaNames::kD2l, MhaNames::kBert})
    EXPECT_THAT(invalid([&] { state_dict(layer, kind); }), HasSubstr("mha_names: head_split: got kSplitThenProject"));
}

TEST(MhaNames, OfProjectionsAreThoseOfTheStateDict) {
  const ProjectionNames bert = projection_names(MhaNames::kBert);
  EXPECT_EQ(bert.v_proj, "attention.self.value");
  EXPECT_EQ(bert.out_proj, "attention.output.dense");
  EXPECT_EQ(projection_names(MhaNames::kQueryLayer).out_proj, "");
  EXPECT_THROW(projection_names(MhaNames::kPytorch), std::invalid_argument);
}

}  // namespace
}  // namespace qkv::test
