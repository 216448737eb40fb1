#include "qkv/models/config.h"

#include <array>
#include <string_view>

#include "qkv/models/json_file.h"

namespace qkv {

namespace {

constexpr Index kMaxDim = 1 << 24;  // far above any model, far below what could overflow a product of two
constexpr Index kMaxBlocks = 1 << 12;

// The names that transformers gives to the activations that qkv has.
struct ActivationName {
  std::string_view name;
  Activation activation;
};
constexpr std::array kActivations = {
    ActivationName{"gelu", Activation::kGeluErf},      ActivationName{"gelu_python", Activation::kGeluErf},
    ActivationName{"gelu_new", Activation::kGeluTanh}, ActivationName{"gelu_pytorch_tanh", Activation::kGeluTanh},
    ActivationName{"relu", Activation::kRelu},
};

Activation parse_activation(const JsonFields& fields) {
  const std::string name = fields.text("hidden_act", "gelu");
  std::string expected;
  for (const auto& known : kActivations) {
    if (known.name == name) return known.activation;
    expected += (expected.empty() ? "" : ", ") + std::string(known.name);
  }
  fields.fail("hidden_act", "got " + to_message(name) + ", expected one of " + expected);
}

// Variants of BERT whose weights would load and then give wrong numbers.
void refuse_other_kinds(const JsonFile& file, const JsonFields& fields) {
  const std::string positions = fields.text("position_embedding_type", "absolute");
  if (positions != "absolute")
    fields.fail("position_embedding_type", "got " + to_message(positions) + ", expected 'absolute'");
  for (const char* key : {"is_decoder", "add_cross_attention"})
    if (fields.flag(key, false)) fields.fail(key, "got true, expected false (only encoders are supported)");
  const auto pruned = file.root.find("pruned_heads");
  if (pruned != file.root.end() && !pruned->empty())
    fields.fail("pruned_heads", "got " + to_message(*pruned) + ", expected none");
}

}  // namespace

BertConfig load_bert_config(const std::string& path) {
  const JsonFile file = read_json_file(path);
  const JsonFields fields(file, "");
  const std::string model_type = fields.text("model_type");
  if (model_type != "bert") fields.fail("model_type", "got " + to_message(model_type) + ", expected 'bert'");
  refuse_other_kinds(file, fields);

  BertConfig config;
  config.vocab_size = fields.integer("vocab_size", 1, kMaxDim);
  config.embed_dim = fields.integer("hidden_size", 1, kMaxDim);
  config.num_blocks = fields.integer("num_hidden_layers", 1, kMaxBlocks);
  config.num_heads = fields.integer("num_attention_heads", 1, kMaxDim);
  config.ffn_dim = fields.integer("intermediate_size", 1, kMaxDim);
  config.max_positions = fields.integer("max_position_embeddings", 1, kMaxDim);
  config.num_token_types = fields.integer("type_vocab_size", 1, kMaxDim, 2);
  config.layer_norm_eps = fields.number("layer_norm_eps", 0, 1, 1e-12);
  config.activation = parse_activation(fields);
  if (config.embed_dim % config.num_heads != 0)
    fields.fail("num_attention_heads", "got " + std::to_string(config.num_heads) +
                                           ", expected a divisor of hidden_size = " + std::to_string(config.embed_dim));
  return config;
}

}  // namespace qkv
