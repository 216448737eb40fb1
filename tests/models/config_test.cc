#include "qkv/models/config.h"

#include "models/toy_bert.h"
#include "nn/layer_support.h"
#include "qkv/core/error.h"

namespace qkv::test {
namespace {

BertConfig load(const nlohmann::json& config) {
  const ModelFolder folder;
  folder.write("config.json", config.dump());
  return load_bert_config(folder.file("config.json"));
}

nlohmann::json toy_config() {
  return ToyBert().config;
}

// What loading says of the toy's config with one field changed.
std::string refusal(const std::string& key, const nlohmann::json& value) {
  nlohmann::json config = toy_config();
  config[key] = value;
  return error_of<FormatError>([&] { load(config); });
}

TEST(BertConfig, ReadsEveryField) {
  nlohmann::json json = toy_config();
  json["layer_norm_eps"] = 1e-6;
  json["hidden_act"] = "relu";
  json["type_vocab_size"] = 3;
  const BertConfig config = load(json);
  EXPECT_EQ(config.vocab_size, 12);
  EXPECT_EQ(config.embed_dim, 12);
  EXPECT_EQ(config.num_blocks, 2);
  EXPECT_EQ(config.num_heads, 3);
  EXPECT_EQ(config.ffn_dim, 20);
  EXPECT_EQ(config.max_positions, 16);
  EXPECT_EQ(config.num_token_types, 3);
  EXPECT_EQ(config.layer_norm_eps, 1e-6);
  EXPECT_EQ(config.activation, Activation::kRelu);
}

TEST(BertConfig, TakesTransformersDefaultsForWhatIsOftenAbsent) {
  nlohmann::json json = toy_config();
  for (const char* key : {"type_vocab_size", "layer_norm_eps", "hidden_act"}) json.erase(key);
  const BertConfig config = load(json);
  EXPECT_EQ(config.num_token_types, 2);
  EXPECT_EQ(config.layer_norm_eps, 1e-12);
  EXPECT_EQ(config.activation, Activation::kGeluErf);
}

TEST(BertConfig, LeavesFieldsThatOnlyTrainingReadsAlone) {
  nlohmann::json json = toy_config();
  json["hidden_dropout_prob"] = 0.1;
  json["use_cache"] = true;
  json["pruned_heads"] = nlohmann::json::object();
  json["is_decoder"] = false;
  json["position_embedding_type"] = "absolute";
  EXPECT_EQ(load(json).embed_dim, 12);
}

TEST(BertConfig, KnowsTheActivationsByTheirNames) {
  const std::vector<std::pair<std::string, Activation>> names{{"gelu", Activation::kGeluErf},
                                                              {"gelu_new", Activation::kGeluTanh},
                                                              {"gelu_pytorch_tanh", Activation::kGeluTanh},
                                                              {"relu", Activation::kRelu}};
  for (const auto& [name, activation] : names) {
    nlohmann::json json = toy_config();
    json["hidden_act"] = name;
    EXPECT_EQ(load(json).activation, activation) << name;
  }
  EXPECT_THAT(refusal("hidden_act", "silu"), holds("hidden_act: got \"silu\", expected one of gelu, "));
}

TEST(BertConfig, RefusesAnotherModelType) {
  EXPECT_THAT(refusal("model_type", "gpt2"),
              holds("config.json: byte ", "model_type: got \"gpt2\", expected \"bert\""));
  EXPECT_THAT(refusal("model_type", 5), holds("model_type: got 5, expected a string"));
}

TEST(BertConfig, RefusesWhatWouldGiveWrongNumbers) {
  EXPECT_THAT(refusal("position_embedding_type", "relative_key"),
              holds("position_embedding_type: got \"relative_key\""));
  EXPECT_THAT(refusal("is_decoder", true), holds("is_decoder: got true, expected false"));
  EXPECT_THAT(refusal("add_cross_attention", true), holds("add_cross_attention: got true, expected false"));
  EXPECT_THAT(refusal("pruned_heads", {{"0", {1}}}), holds("pruned_heads: got an object, expected none"));
}

TEST(BertConfig, RefusesHeadsThatDoNotDivideTheWidth) {
  EXPECT_THAT(refusal("num_attention_heads", 5), holds("num_attention_heads: got 5", "hidden_size = 12"));
}

TEST(BertConfig, NamesAMissingField) {
  for (const char* key : {"model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                          "intermediate_size", "max_position_embeddings"}) {
    nlohmann::json json = toy_config();
    json.erase(key);
    EXPECT_THAT(error_of<FormatError>([&] { load(json); }), holds(std::string(key) + ": got nothing")) << key;
  }
}

TEST(BertConfig, RefusesAbsurdSizes) {
  for (const char* key : {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                          "max_position_embeddings", "type_vocab_size"})
    for (const nlohmann::json& value :
         {nlohmann::json(0), nlohmann::json(-4), nlohmann::json(1e18), nlohmann::json("12"), nlohmann::json(12.5),
          nlohmann::json(std::int64_t{1} << 40), nlohmann::json(true), nlohmann::json::array({12})})
      EXPECT_THAT(refusal(key, value), holds(std::string(key) + ": got ", "expected a whole number from 1 to "))
          << key << " " << value;
  EXPECT_THAT(refusal("layer_norm_eps", -1e-12), holds("layer_norm_eps: got -1e-12"));
  EXPECT_THAT(refusal("layer_norm_eps", "small"), holds("layer_norm_eps: got \"small\", expected a number"));
}

TEST(BertConfig, RefusesAListInPlaceOfAnObject) {
  EXPECT_THAT(error_of<FormatError>([] { load(nlohmann::json::array()); }), holds("got an array, expected an object"));
}

TEST(BertConfig, RefusesAHugeFile) {
  const ModelFolder folder;
  folder.write("config.json", "{}");
  std::filesystem::resize_file(folder.file("config.json"), (16u << 20) + 1);
  EXPECT_THAT(error_of<FormatError>([&] { load_bert_config(folder.file("config.json")); }),
              holds("size: got 16777217 bytes, expected at most 16777216"));
}

}  // namespace
}  // namespace qkv::test
