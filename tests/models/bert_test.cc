#include "qkv/models/bert.h"

#include <limits>

#include "models/toy_bert.h"
#include "nn/layer_support.h"
#include "qkv/core/error.h"

namespace qkv::test {
namespace {

using Tokens = Tensor<std::int32_t, 2>;

Tokens tokens_of(const Shape<2>& shape, const std::vector<std::int32_t>& ids) {
  Tokens tokens(shape);
  std::copy(ids.begin(), ids.end(), tokens.data());
  return tokens;
}

Bert load(const ToyBert& toy) {
  const ModelFolder folder;
  toy.write(folder);
  return load_bert(load_bert_config(folder.file("config.json")), SafetensorsFile(folder.file("model.safetensors")));
}

struct BertReference {
  std::vector<Tensor<double, 3>> hidden_states;
  std::vector<Tensor<double, 4>> attn_weights;
};

Linear linear_named(const ToyBert& toy, const std::string& name) {
  return {.weight = toy.tensor<2>(name + ".weight"), .bias = toy.tensor<1>(name + ".bias")};
}

LayerNorm norm_named(const ToyBert& toy, const std::string& name) {
  return {.weight = toy.tensor<1>(name + ".weight"), .bias = toy.tensor<1>(name + ".bias"), .eps = 1e-12};
}

// BERT straight from the paper, in double, on the toy's tensors by their names.
BertReference bert_reference(const ToyBert& toy, const Tokens& tokens, const std::vector<Index>& valid_lens,
                             const Tokens& types) {
  const auto words = toy.tensor<2>("embeddings.word_embeddings.weight"),
             positions = toy.tensor<2>("embeddings.position_embeddings.weight"),
             type_rows = toy.tensor<2>("embeddings.token_type_embeddings.weight");
  Tensor<double, 3> sum({tokens.shape(0), tokens.shape(1), 12});
  for (Index b = 0; b < sum.shape(0); ++b)
    for (Index i = 0; i < sum.shape(1); ++i)
      for (Index d = 0; d < 12; ++d)
        sum(b, i, d) = double{words(tokens(b, i), d)} + positions(i, d) + type_rows(types(b, i), d);

  BertReference result;
  result.hidden_states.push_back(norm_reference(norm_named(toy, "embeddings.LayerNorm"), sum));
  for (const std::string name : {"encoder.layer.0.", "encoder.layer.1."}) {
    const auto& x = result.hidden_states.back();
    const MultiHeadAttention layer{.q_proj = linear_named(toy, name + "attention.self.query"),
                                   .k_proj = linear_named(toy, name + "attention.self.key"),
                                   .v_proj = linear_named(toy, name + "attention.self.value"),
                                   .out_proj = linear_named(toy, name + "attention.output.dense"),
                                   .num_heads = 3};
    auto attention = multi_head_attention_reference(layer, x, x, x, [&](auto& args) {
      args.valid_lens = {valid_lens.data(), {x.shape(0), x.shape(1)}, {1, 0}};
    });
    const auto middle =
        norm_reference(norm_named(toy, name + "attention.output.LayerNorm"), sum_reference(x, attention.out));
    const auto hidden = linear_reference(
        linear_named(toy, name + "output.dense"),
        linear_reference(linear_named(toy, name + "intermediate.dense"), middle, Activation::kGeluErf));
    result.attn_weights.push_back(std::move(attention.attention.attn_weights));
    result.hidden_states.push_back(
        norm_reference(norm_named(toy, name + "output.LayerNorm"), sum_reference(middle, hidden)));
  }
  return result;
}

TEST(Bert, AgreesWithDoubleInEveryLayer) {
  const ToyBert toy;
  const Bert model = load(toy);
  const Tokens tokens = tokens_of({2, 5}, {2, 5, 6, 7, 3, 2, 9, 3, 0, 0});
  const Tokens types = tokens_of({2, 5}, {0, 0, 1, 1, 1, 0, 0, 0, 0, 0});
  const std::vector<Index> valid_lens{5, 3};
  const auto expected = bert_reference(toy, tokens, valid_lens, types);
  const auto got =
      forward(model, tokens,
              {.valid_lens = valid_lens, .token_types = types.view(), .hidden_states = true, .attn_weights = true});
  ASSERT_EQ(got.hidden_states.size(), 3u);
  ASSERT_EQ(got.attn_weights.size(), 2u);
  for (std::size_t n = 0; n < 3; ++n) expect_near(got.hidden_states[n], expected.hidden_states[n], 1e-5);
  for (std::size_t n = 0; n < 2; ++n) expect_near(got.attn_weights[n], expected.attn_weights[n], 2e-6);
}

TEST(Bert, ReturnsTheLastStateAloneUnlessAsked) {
  const Bert model = load(ToyBert());
  const Tokens tokens = tokens_of({1, 3}, {2, 5, 3});
  const auto brief = forward(model, tokens), full = forward(model, tokens, {.hidden_states = true});
  ASSERT_EQ(brief.hidden_states.size(), 1u);
  EXPECT_TRUE(brief.attn_weights.empty());
  expect_same_bits(brief.hidden_states[0], full.hidden_states.back());
}

TEST(Bert, TakesAbsentTokenTypesAsZeros) {
  const Bert model = load(ToyBert());
  const Tokens tokens = tokens_of({1, 3}, {2, 5, 3}), types = tokens_of({1, 3}, {0, 0, 0});
  expect_same_bits(forward(model, tokens).hidden_states[0],
                   forward(model, tokens, {.token_types = types.view()}).hidden_states[0]);
}

TEST(Bert, DoesNotLetPaddingReachRealTokens) {
  const Bert model = load(ToyBert());
  const auto alone = forward(model, tokens_of({1, 3}, {2, 5, 3}));
  const std::vector<Index> valid_lens{3};
  const auto padded = forward(model, tokens_of({1, 7}, {2, 5, 3, 8, 8, 8, 8}), {.valid_lens = valid_lens});
  ASSERT_EQ(padded.hidden_states[0].shape(), (Shape<3>{1, 7, 12}));
  for (Index i = 0; i < 3; ++i)
    for (Index d = 0; d < 12; ++d) EXPECT_NEAR(padded.hidden_states[0](0, i, d), alone.hidden_states[0](0, i, d), 2e-6);
}

TEST(Bert, LoadsTheSameWeightsUnderEveryNaming) {
  const Tokens tokens = tokens_of({1, 4}, {2, 5, 6, 3});
  const auto expected = forward(load(ToyBert()), tokens);
  ToyBert old_names("bert.");
  for (const std::string name : {"bert.embeddings.LayerNorm", "bert.encoder.layer.0.attention.output.LayerNorm",
                                 "bert.encoder.layer.0.output.LayerNorm", "bert.encoder.layer.1.output.LayerNorm"}) {
    old_names.rename(name + ".weight", name + ".gamma");
    old_names.rename(name + ".bias", name + ".beta");
  }
  expect_same_bits(forward(load(ToyBert("bert.")), tokens).hidden_states[0], expected.hidden_states[0]);
  expect_same_bits(forward(load(old_names), tokens).hidden_states[0], expected.hidden_states[0]);
}

TEST(Bert, LeavesTensorsThatItDoesNotNeedAlone) {
  ToyBert toy;
  toy.tensors["pooler.dense.weight"] = {{2}, {std::numeric_limits<float>::quiet_NaN(), 1}};
  toy.tensors["cls.predictions.bias"] = {{3}, {1, 2, 3}};
  toy.tensors["embeddings.position_ids"] = {{1, 2}, {0, 0}, "I32"};
  EXPECT_EQ(load(toy).blocks.size(), 2u);
}

TEST(Bert, ListsEveryTensorThatIsMissingOrMisshapen) {
  ToyBert toy;
  toy.tensors.erase("encoder.layer.1.attention.self.key.bias");
  toy.tensors["encoder.layer.0.output.dense.weight"].shape = {20, 12};
  toy.tensors["embeddings.LayerNorm.weight"].dtype = "I32";
  EXPECT_THAT(
      error_of<FormatError>([&] { load(toy); }),
      holds("model.safetensors: byte ", "got 3 tensors", "\"encoder.layer.1.attention.self.key.bias\" is missing",
            "\"encoder.layer.0.output.dense.weight\" has shape [20, 12] where config.json says [12, 20]",
            "\"embeddings.LayerNorm.weight\" holds I32, not floats"));
}

TEST(Bert, KeepsTheListShortForAModelOfAnotherKind) {
  ToyBert toy;
  toy.tensors.clear();
  toy.tensors["wte.weight"] = {{1}, {0}};
  const std::string message = error_of<FormatError>([&] { load(toy); });
  EXPECT_THAT(message, holds("got 37 tensors", "and 29 more"));
  EXPECT_LT(message.size(), 1000u);
}

TEST(Bert, RefusesMoreTokensThanPositions) {
  const Bert model = load(ToyBert());
  const Tokens tokens({1, 17}, 5);
  EXPECT_THAT(invalid([&] { forward(model, tokens); }),
              holds("bert: tokens.shape[1] (len): got 17, expected at most 16"));
}

TEST(Bert, RefusesTokensAndTypesThatItDoesNotHave) {
  const Bert model = load(ToyBert());
  EXPECT_THAT(error_of<std::out_of_range>([&] {
                forward(model, tokens_of({1, 2}, {2, 12}));
              }),
              holds("got 12", "vocab_size = 12"));
  const Tokens types = tokens_of({1, 2}, {0, 2}), short_types = tokens_of({1, 1}, {0});
  EXPECT_THROW(forward(model, tokens_of({1, 2}, {2, 3}), {.token_types = types.view()}), std::out_of_range);
  EXPECT_THAT(invalid([&] {
                forward(model, tokens_of({1, 2}, {2, 3}), {.token_types = short_types.view()});
              }),
              holds("bert: token_types.shape: got [1, 1], expected [1, 2]"));
}

TEST(Bert, RefusesValidLensOfAnotherBatch) {
  const Bert model = load(ToyBert());
  const std::vector<Index> valid_lens{2, 2};
  EXPECT_THAT(invalid([&] {
                forward(model, tokens_of({1, 2}, {2, 3}), {.valid_lens = valid_lens});
              }),
              holds("valid_lens.shape[0] (batch): got 2, expected 1"));
}

TEST(Bert, AcceptsNoTokens) {
  const Bert model = load(ToyBert());
  EXPECT_EQ(forward(model, Tokens({1, 0})).hidden_states[0].shape(), (Shape<3>{1, 0, 12}));
  EXPECT_EQ(forward(model, Tokens({0, 4})).hidden_states[0].shape(), (Shape<3>{0, 4, 12}));
}

TEST(Bert, GivesTheSameBitsWithAnyNumberOfThreads) {
  const Bert model = load(ToyBert());
  const Tokens tokens({7, 16}, 6);
  const auto expected = forward(model, tokens, {}, {.executor = &calling_thread_executor()});
  TbbExecutor executor(4);
  expect_same_bits(forward(model, tokens, {}, {.executor = &executor}).hidden_states[0], expected.hidden_states[0]);
}

}  // namespace
}  // namespace qkv::test
