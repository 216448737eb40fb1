// Our Bert against stored results of transformers' BertModel, loaded from the folder that save_pretrained wrote.

#include <algorithm>

#include "nn/pytorch_layers.h"
#include "qkv/models/bert.h"

namespace qkv::test {
namespace {

const std::string kFolder = QKV_TEST_DATA "/toy_bert";

Tensor<std::int32_t, 2> load_tokens(const SafetensorsFile& file, const std::string& name) {
  const TensorValues<Index> stored = file.load_index(name);
  Tensor<std::int32_t, 2> tokens({stored.shape.at(0), stored.shape.at(1)});
  std::copy_n(stored.values.data(), stored.values.size(), tokens.data());
  return tokens;
}

template <int Rank>
Tensor<float, Rank> load(const SafetensorsFile& file, const std::string& name) {
  Shape<Rank> shape{};
  std::copy_n(file.info(name).shape.begin(), Rank, shape.begin());
  return file.load<Rank>(name, shape);
}

TEST(BertGolden, GivesEveryHiddenStateAndEveryWeightOfTransformers) {
  const Bert model =
      load_bert(load_bert_config(kFolder + "/config.json"), SafetensorsFile(kFolder + "/model.safetensors"));
  const SafetensorsFile expected(kFolder + "/expected.safetensors");
  const auto tokens = load_tokens(expected, "tokens"), types = load_tokens(expected, "token_types");
  const std::vector<Index> valid_lens{9, 5};
  const auto got =
      forward(model, tokens,
              {.valid_lens = valid_lens, .token_types = types.view(), .hidden_states = true, .attn_weights = true});
  ASSERT_EQ(got.hidden_states.size(), 3u);
  ASSERT_EQ(got.attn_weights.size(), 2u);
  for (std::size_t n = 0; n < 3; ++n)
    expect_near(got.hidden_states[n], load<3>(expected, "hidden_states." + std::to_string(n)), 1e-5);
  for (std::size_t n = 0; n < 2; ++n)
    expect_near(got.attn_weights[n], load<4>(expected, "attn_weights." + std::to_string(n)), 2e-6);
}

}  // namespace
}  // namespace qkv::test
