// State dicts of other people's layers, out of safetensors files, against what those layers compute.

#include "nn/pytorch_layers.h"
#include "nn/state_dict_support.h"
#include "qkv/io/safetensors_writer.h"
#include "qkv/nn/init.h"
#include "qkv/nn/mha_names.h"
#include "tests/io/file_support.h"

namespace qkv::test {
namespace {

constexpr double kTolerance = 4e-6;  // values are of order 1; the stored ones were computed in float64

const std::string kData = QKV_TEST_DATA;

// Entries under `prefix`, without it: what a state dict of the layer alone would be.
StateDict state_under(const SafetensorsFile& file, const std::string& prefix) {
  StateDict result;
  for (auto& [name, tensor] : file.load_state_dict(prefix)) result[name.substr(prefix.size())] = std::move(tensor);
  return result;
}

// A layer of the shape, filled from the state dict by way of a file that we write ourselves; saved again it is the
// same.
MultiHeadAttention through_a_file(const MultiHeadAttentionShape& shape, MhaNames names, const StateDict& state) {
  RandomStream random(1);
  MultiHeadAttention layer = make_multi_head_attention(shape, random);
  const testing::TempFolder folder;
  write_safetensors(folder.file("x.safetensors"), state);
  load_state_dict(layer, names, SafetensorsFile(folder.file("x.safetensors")).load_state_dict());
  expect_same_state(state_dict(layer, names), state);
  return layer;
}

class StateDictGolden : public ::testing::Test {
 protected:
  void expect_d2l(const std::string& name, const MultiHeadAttentionShape& shape, const ValidLens& valid_lens) {
    const auto layer = through_a_file(shape, MhaNames::kD2l, state_under(file_, name + ".state."));
    const GoldenCase golden(file_, name);
    const auto got =
        forward(layer, golden.tensor<3>("in.queries"), golden.tensor<3>("in.keys"), golden.tensor<3>("in.values"),
                {.mask = {.valid_lens = valid_lens}, .observe = {.attn_weights = true}});
    expect_near(got.out, golden.tensor<3>("out.out"), kTolerance);
    expect_near(got.attn_weights, golden.tensor<4>("out.attn_weights"), kTolerance);
  }

  SafetensorsFile file_{kData + "/state_dicts.safetensors"};
};

TEST_F(StateDictGolden, OfD2lWithLengthsPerSequence) {
  const std::vector<Index> valid_lens{3, 2};
  expect_d2l("d2l", {.embed_dim = 20, .num_heads = 5, .query_dim = 6, .key_dim = 7, .value_dim = 9, .bias = false},
             valid_lens);
}

TEST_F(StateDictGolden, OfD2lWithBiasesAndLengthsPerQuery) {
  const auto lens = file_.load_index("d2l_bias.in.valid_lens");
  const TensorView<const Index, 2> valid_lens(lens.values.data(), {2, 4});
  expect_d2l("d2l_bias", {.embed_dim = 20, .num_heads = 5, .query_dim = 6, .key_dim = 7, .value_dim = 9}, valid_lens);
}

TEST_F(StateDictGolden, OfSelfAttentionWithoutOutputProjection) {
  const auto layer = through_a_file({.embed_dim = 8, .num_heads = 2, .query_dim = 6, .out_proj = false},
                                    MhaNames::kQueryLayer, state_under(file_, "self_attention.state."));
  const GoldenCase golden(file_, "self_attention");
  const auto x = golden.tensor<3>("in.x");
  const auto got = forward(layer, x, x, x, {.observe = {.attn_weights = true}});
  expect_near(got.out, golden.tensor<3>("out.out"), kTolerance);
  expect_near(got.attn_weights, golden.tensor<4>("out.attn_weights"), kTolerance);
}

TEST_F(StateDictGolden, OfLinear) {
  const StateDict state = state_under(file_, "linear.state.");
  RandomStream random(1);
  Linear layer = make_linear({.in_dim = 6, .out_dim = 4}, random);
  load_state_dict(layer, state);
  expect_same_state(state_dict(layer), state);
  const GoldenCase golden(file_, "linear");
  expect_near(forward(layer, golden.tensor<3>("in.x")), golden.tensor<3>("out.out"), kTolerance);
}

// The cases of multi_head_attention.safetensors hold inputs and results under the same prefix as the state dict.
void expect_pytorch(const std::string& name, const MultiHeadAttentionShape& shape) {
  const SafetensorsFile file(kData + "/multi_head_attention.safetensors");
  const StateDict all = state_under(file, name + ".");
  RandomStream random(1);
  MultiHeadAttention layer = make_multi_head_attention(shape, random);
  load_state_dict(layer, MhaNames::kPytorch, all, {.allow_extra = true});
  for (const auto& [key, tensor] : state_dict(layer, MhaNames::kPytorch)) {
    EXPECT_EQ(tensor.shape, all.at(key).shape) << key;
    EXPECT_EQ(bits(tensor), bits(all.at(key))) << key;
  }
  const GoldenCase golden(file, name);
  const auto got = forward(layer, golden.tensor<3>("query"), golden.tensor<3>("key"), golden.tensor<3>("value"));
  expect_near(got.out, golden.tensor<3>("out"), kTolerance);
}

TEST(StateDictGoldenPytorch, WithPackedProjections) {
  expect_pytorch("self", {.embed_dim = 24, .num_heads = 3});
}

TEST(StateDictGoldenPytorch, WithoutBiases) {
  expect_pytorch("self_without_bias", {.embed_dim = 24, .num_heads = 3, .bias = false});
}

TEST(StateDictGoldenPytorch, WithSeparateProjections) {
  expect_pytorch("cross_separate", {.embed_dim = 24, .num_heads = 4, .key_dim = 10, .value_dim = 14});
}

// models/bert_golden_test.cc compares with what transformers computes from these weights.
TEST(StateDictGoldenBert, GivesBackTheAttentionOfABlock) {
  const std::string prefix = "encoder.layer.1.";
  const SafetensorsFile file(kData + "/toy_bert/model.safetensors");
  RandomStream random(1);
  MultiHeadAttention layer = make_multi_head_attention({.embed_dim = 24, .num_heads = 3}, random);
  load_state_dict(layer, MhaNames::kBert, file.load_state_dict(prefix), {.prefix = prefix, .allow_extra = true});
  StateDict expected;
  for (const char* name :
       {"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"}) {
    for (const char* kind : {".weight", ".bias"}) expected[prefix + name + kind] = file.load_f32(prefix + name + kind);
  }
  expect_same_state(state_dict(layer, MhaNames::kBert, prefix), expected);
}

}  // namespace
}  // namespace qkv::test
