#include "qkv/models/config.h"

#include <array>
#include <string_view>

#include "qkv/core/in_quotes.h"
#include "qkv/text/json_file.h"

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

Activation parse_activation(const JsonNode& root) {
  const std::string name = get_string_or(root, "hidden_act", "gelu");
  std::string expected;
  for (const auto& known : kActivations) {
    if (known.name == name) return known.activation;
    expected += (expected.empty() ? "one of " : ", ") + std::string(known.name);
  }
  throw_bad_value(get_child(root, "hidden_act"), in_quotes(name), expected);
}

// Variants of BERT whose weights would load and then give wrong numbers.
void refuse_other_kinds(const JsonNode& root) {
  const auto positions = find_child(root, "position_embedding_type");
  if (positions && get_string(*positions) != "absolute") throw_bad_value(*positions, show(*positions), "\"absolute\"");
  for (const char* key : {"is_decoder", "add_cross_attention"}) {
    if (get_bool_or(root, key, false))
      throw_bad_value(get_child(root, key), "true", "false (only encoders are supported)");
  }
  const auto pruned = find_child(root, "pruned_heads");
  if (pruned && !pruned->value->empty()) throw_bad_value(*pruned, show(*pruned), "none");
}

}  // namespace

BertConfig load_bert_config(const std::string& path) {
  const JsonFile file = read_json_file(path, kMaxConfigBytes);
  const JsonNode root = root_of(file);
  const JsonNode model_type = get_child(root, "model_type");
  if (get_string(model_type) != "bert") throw_bad_value(model_type, show(model_type), "\"bert\"");
  refuse_other_kinds(root);

  const auto dim = [&](const char* key) { return get_index(get_child(root, key), 1, kMaxDim); };
  BertConfig config;
  config.vocab_size = dim("vocab_size");
  config.embed_dim = dim("hidden_size");
  config.num_blocks = get_index(get_child(root, "num_hidden_layers"), 1, kMaxBlocks);
  config.num_heads = dim("num_attention_heads");
  config.ffn_dim = dim("intermediate_size");
  config.max_positions = dim("max_position_embeddings");
  config.num_token_types = find_child(root, "type_vocab_size") ? dim("type_vocab_size") : 2;
  const auto eps = find_child(root, "layer_norm_eps");
  config.layer_norm_eps = eps ? get_number(*eps, 0, 1) : 1e-12;
  config.activation = parse_activation(root);
  if (config.embed_dim % config.num_heads != 0) {
    throw_bad_value(get_child(root, "num_attention_heads"), std::to_string(config.num_heads),
                    "a divisor of hidden_size = " + std::to_string(config.embed_dim));
  }
  return config;
}

}  // namespace qkv
