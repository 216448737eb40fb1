#include "qkv/nn/state_dict.h"

#include "nn/state_dict_support.h"

namespace qkv::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TransformerBlock random_block(Random& random) {
  return {.attention = {.q_proj = random_linear(random, 4, 4),
                        .k_proj = random_linear(random, 4, 4, false),
                        .v_proj = random_linear(random, 4, 4),
                        .out_proj = random_linear(random, 4, 4)},
          .attention_norm = random_norm(random, 4),
          .feed_forward = {.up_proj = random_linear(random, 6, 4), .down_proj = random_linear(random, 4, 6)},
          .feed_forward_norm = random_norm(random, 4)};
}

TEST(StateDict, HoldsNamesShapesAndValues) {
  const Linear layer{.weight = tensor_of<2>({2, 3}, {1, 2, 3, 4, 5, 6}), .bias = tensor_of<1>({2}, {7, 8})};
  StateDict expected;
  expected["fc.weight"] = entry({2, 3}, {1, 2, 3, 4, 5, 6});
  expected["fc.bias"] = entry({2}, {7, 8});
  expect_same_state(state_dict(layer, "fc."), expected);
}

TEST(StateDict, IsACopy) {
  Linear layer{.weight = tensor_of<2>({1, 1}, {1})};
  const StateDict state = state_dict(layer);
  layer.weight(0, 0) = 2;
  EXPECT_THAT(values(state.at("weight")), ElementsAre(1));
}

TEST(LoadStateDict, ComesBackBitByBitForEveryLayer) {
  Random random(1);
  TransformerBlock block = random_block(random);
  // NaN whose payload arithmetic would change, and what rounds or compares differently.
  block.attention.q_proj.weight(0, 0) = std::bit_cast<float>(0xffc12345u);
  block.attention.q_proj.weight(0, 1) = std::bit_cast<float>(0x7f800001u);
  block.attention.q_proj.weight(0, 2) = -0.f;
  block.attention.q_proj.weight(0, 3) = 0x1p-149f;
  const StateDict state = state_dict(block, "b.");
  TransformerBlock loaded = blank(random_block(random));
  load_state_dict(loaded, state, {.prefix = "b."});
  expect_same_state(state_dict(loaded, "b."), state);

  Embedding embedding{.weight = random.tensor<2>({5, 3})}, other{.weight = Tensor<float, 2>({5, 3}, 0)};
  load_state_dict(other, state_dict(embedding));
  expect_same_bits(other.weight, embedding.weight);
}

TEST(LoadStateDict, ListsAllThatDoesNotFitInOneMessage) {
  Random random(2);
  TransformerBlock block = random_block(random);
  StateDict state = state_dict(block);
  state.erase("attention.q_proj.bias");
  state.erase("feed_forward_norm.weight");
  state["attention.v_proj.weight"] = entry({4, 2}, std::vector<float>(8));
  state["attention.k_proj.bias"] = entry({4}, std::vector<float>(4));
  state["attention.out_proj.bias"] = entry({}, {1});
  EXPECT_EQ(invalid([&] { load_state_dict(block, state); }),
            "load_state_dict: entries that do not fit the layer: got 5, expected none: "
            "\"attention.q_proj.bias\" of shape [4] is missing; "
            "\"attention.v_proj.weight\" has shape [4, 2], expected [4, 4]; "
            "\"attention.out_proj.bias\" has shape [], expected [4]; "
            "\"feed_forward_norm.weight\" of shape [4] is missing; "
            "\"attention.k_proj.bias\" of shape [4] is extra");
}

TEST(LoadStateDict, LeavesTheLayerAloneWhereSomethingDoesNotFit) {
  Random random(3);
  Linear layer = random_linear(random, 2, 3);
  const StateDict before = state_dict(layer);
  StateDict state = state_dict(random_linear(random, 2, 3));
  state.erase("bias");  // comes after the weight, which fits
  EXPECT_THROW(load_state_dict(layer, state), std::invalid_argument);
  expect_same_state(state_dict(layer), before);
}

TEST(LoadStateDict, RefusesTheSameNumberOfValuesInAnotherShape) {
  Linear layer{.weight = Tensor<float, 2>({2, 3}, 0)};
  StateDict state;
  state["weight"] = entry({3, 2}, std::vector<float>(6));
  EXPECT_THAT(invalid([&] { load_state_dict(layer, state); }), HasSubstr("has shape [3, 2], expected [2, 3]"));
  state["weight"] = entry({6}, std::vector<float>(6));
  EXPECT_THAT(invalid([&] { load_state_dict(layer, state); }), HasSubstr("has shape [6], expected [2, 3]"));
}

TEST(LoadStateDict, RefusesAnEntryWhoseValuesAreNotThoseOfItsShape) {
  Linear layer{.weight = Tensor<float, 2>({2, 3}, 0)};
  StateDict state;
  state["weight"] = entry({2, 3}, std::vector<float>(5));
  EXPECT_THAT(invalid([&] { load_state_dict(layer, state); }), HasSubstr("\"weight\" holds 5 values, expected [2, 3]"));
}

TEST(LoadStateDict, LooksOnlyAtEntriesUnderItsPrefix) {
  Random random(4);
  const Linear layer = random_linear(random, 2, 3);
  StateDict state = state_dict(layer, "a.");
  state["weight"] = entry({1}, {1});
  state["b.weight"] = entry({1}, {1});
  Linear loaded = blank(random_linear(random, 2, 3));
  load_state_dict(loaded, state, {.prefix = "a."});
  expect_same_bits(loaded.weight, layer.weight);

  state["a.scale"] = entry({1}, {1});
  EXPECT_THAT(invalid([&] { load_state_dict(loaded, state, {.prefix = "a."}); }),
              holds("got 1", "\"a.scale\" of shape [1] is extra"));
}

TEST(LoadStateDict, LeavesExtraEntriesAloneWhereThatIsAllowed) {
  Random random(5);
  const Linear layer = random_linear(random, 2, 3);
  StateDict state = state_dict(layer);
  state["num_batches"] = entry({}, {1});
  Linear loaded = blank(random_linear(random, 2, 3));
  load_state_dict(loaded, state, {.allow_extra = true});
  expect_same_bits(loaded.weight, layer.weight);
  state.erase("bias");
  EXPECT_THAT(invalid([&] { load_state_dict(loaded, state, {.allow_extra = true}); }),
              holds("got 1", "\"bias\" of shape [2] is missing"));
}

TEST(LoadStateDict, ShowsStrangeNamesOnOneLineOfAscii) {
  Linear layer{.weight = Tensor<float, 2>({1, 1}, 0)};
  StateDict state = state_dict(layer);
  state["a\n\"\\\x1b[31m\xc3\xa9"] = entry({}, {1});
  const std::string message = invalid([&] { load_state_dict(layer, state); });
  EXPECT_THAT(message, HasSubstr("\"a\\n\\\"\\\\\\x1b[31m\\xc3\\xa9\" of shape [] is extra"));
  EXPECT_THAT(message, Not(HasSubstr("\n")));
}

TEST(LoadParameters, FillsSeveralLayersAndListsWhatIsWrongWithAnyOfThem) {
  Random random(6);
  const Linear first = random_linear(random, 2, 3), second = random_linear(random, 3, 2);
  StateDict state = state_dict(first, "0.");
  state.merge(state_dict(second, "1."));
  Linear a = blank(random_linear(random, 2, 3)), b = blank(random_linear(random, 3, 2));
  std::vector<Parameter<float>> both = parameters(a, "0.");
  for (const auto& parameter : parameters(b, "1.")) both.push_back(parameter);
  load_parameters(both, state);
  expect_same_bits(a.weight, first.weight);
  expect_same_bits(b.weight, second.weight);

  state.erase("0.bias");
  state.erase("1.bias");
  EXPECT_THAT(invalid([&] { load_parameters(both, state); }), holds("got 2", "\"0.bias\"", "\"1.bias\""));
}

}  // namespace
}  // namespace qkv::test
