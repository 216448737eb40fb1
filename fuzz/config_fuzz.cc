// A config.json: refused in the documented way, or read as another JSON reader understands it and within its limits.

#include <nlohmann/json.hpp>

#include "fuzz/fuzz_support.h"
#include "fuzz/json_checks.h"
#include "qkv/models/config.h"

namespace qkv::fuzz {
namespace {

void check_config(const BertConfig& config, const nlohmann::json& file) {
  const auto check_dim = [&](const char* key, Index value) {
    require(value >= 1 && value <= 1 << 24, std::string(key) + " is within its limits");
    require(file.at(key) == value, std::string(key) + " is that of the file");
  };
  require(file.at("model_type") == "bert", "model_type is bert");
  check_dim("vocab_size", config.vocab_size);
  check_dim("hidden_size", config.embed_dim);
  check_dim("num_hidden_layers", config.num_blocks);
  check_dim("num_attention_heads", config.num_heads);
  check_dim("intermediate_size", config.ffn_dim);
  check_dim("max_position_embeddings", config.max_positions);
  require(config.num_token_types >= 1, "num_token_types is within its limits");
  require(config.layer_norm_eps >= 0 && config.layer_norm_eps <= 1, "layer_norm_eps is within its limits");
  require(config.embed_dim % config.num_heads == 0, "the heads divide the width");
}

void test(std::string_view text) {
  check_json(text);
  const MemoryFile input(text);
  try {
    const BertConfig config = load_bert_config(input.path());
    check_config(config, nlohmann::json::parse(text));
  } catch (const FormatError& error) {
    check_refusal(error, input.path(), text.size());
  }
}

}  // namespace
}  // namespace qkv::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  qkv::fuzz::test(qkv::fuzz::to_text(data, size));
  return 0;
}
