#include "qkv/models/sentence_options.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "qkv/core/in_quotes.h"
#include "qkv/text/json_file.h"

namespace qkv {

namespace {

namespace fs = std::filesystem;

constexpr Index kMinLength = 2;               // [CLS] and [SEP]
constexpr Index kMaxLength = Index{1} << 40;  // some folders say "no limit" by a huge number

// A link to nothing is there, and reported when it is opened, as all is that cannot be looked at.
bool file_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() != fs::file_type::not_found;
}

struct PoolingFlag {
  const char* key;
  std::string_view name;  // the value of `pooling_mode` in newer files
  std::optional<Pooling> pooling;
};
constexpr std::array kPoolingFlags = {
    PoolingFlag{"pooling_mode_cls_token", "cls", Pooling::kCls},
    PoolingFlag{"pooling_mode_mean_tokens", "mean", Pooling::kMean},
    PoolingFlag{"pooling_mode_max_tokens", "max", Pooling::kMax},
    PoolingFlag{"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", std::nullopt},
    PoolingFlag{"pooling_mode_weightedmean_tokens", "weightedmean", std::nullopt},
    PoolingFlag{"pooling_mode_lasttoken", "lasttoken", std::nullopt},
};

Pooling load_pooling(const std::string& path, const BertConfig& config) {
  const JsonFile file = read_json_file(path, kMaxConfigBytes);
  const JsonNode root = root_of(file);
  for (const char* key : {"embedding_dimension", "word_embedding_dimension"}) {
    const auto dim = find_child(root, key);
    if (dim && get_index(*dim, 1, kMaxLength) != config.embed_dim)
      throw_bad_value(*dim, show(*dim), std::to_string(config.embed_dim) + ", the hidden_size of config.json");
  }
  const auto mode = find_child(root, "pooling_mode");
  std::vector<const PoolingFlag*> asked;
  for (const PoolingFlag& flag : kPoolingFlags) {
    if (mode ? get_string(*mode) == flag.name : get_bool_or(root, flag.key, false)) asked.push_back(&flag);
  }
  const char* expected = "one of mean, cls and max";
  if (mode && (asked.empty() || !asked[0]->pooling)) throw_bad_value(*mode, show(*mode), expected);
  if (asked.size() != 1)
    throw_bad_value(root, std::to_string(asked.size()) + " keys pooling_mode_* that are true", expected);
  if (!asked[0]->pooling) throw_bad_value(get_child(root, asked[0]->key), "true", expected);
  return *asked[0]->pooling;
}

Index load_max_tokens(const fs::path& path, const BertConfig& config) {
  if (!file_exists(path)) return config.max_positions;
  const JsonFile file = read_json_file(path.string(), kMaxConfigBytes);
  const auto length = find_child(root_of(file), "max_seq_length");
  return length ? std::min(get_index(*length, kMinLength, kMaxLength), config.max_positions) : config.max_positions;
}

// The folder of each module in modules.json, in their order: Transformer, Pooling and perhaps Normalize.
std::vector<fs::path> load_modules(const fs::path& root) {
  constexpr std::array<std::string_view, 3> kSupported{"Transformer", "Pooling", "Normalize"};
  const JsonFile file = read_json_file((root / "modules.json").string(), kMaxConfigBytes);
  const std::vector<JsonNode> modules = get_elements(root_of(file));
  if (modules.size() < 2 || modules.size() > kSupported.size()) {
    throw_bad_value(root_of(file), std::to_string(modules.size()) + " modules",
                    "Transformer, Pooling and perhaps Normalize");
  }
  std::vector<fs::path> folders;
  for (const JsonNode& module : modules) {
    const std::string_view expected = kSupported[folders.size()];
    const JsonNode type = get_child(module, "type");  // "sentence_transformers.models.Pooling"
    const std::string name = get_string(type);
    if (name.substr(name.rfind('.') + 1) != expected) throw_bad_value(type, show(type), in_quotes(expected));
    const fs::path path = get_string_or(module, "path", "");
    // A folder of somebody else's may not send us anywhere else on this machine.
    if (path.is_absolute() || std::ranges::find(path, fs::path("..")) != path.end())
      throw_bad_value(get_child(module, "path"), in_quotes(path.string()), "a folder inside the model's");
    if (folders.empty() && !path.empty())
      throw_bad_value(get_child(module, "path"), in_quotes(path.string()), "\"\", the folder itself, for Transformer");
    folders.push_back(path);
  }
  return folders;
}

}  // namespace

SentenceOptions load_sentence_options(const std::string& folder, const BertConfig& config) {
  const fs::path root(folder);
  SentenceOptions options{.pooling = Pooling::kMean, .normalize = false, .max_tokens = config.max_positions};
  if (!file_exists(root / "modules.json")) return options;
  const std::vector<fs::path> modules = load_modules(root);
  options.pooling = load_pooling((root / modules[1] / "config.json").string(), config);
  options.normalize = modules.size() == 3;
  options.max_tokens = load_max_tokens(root / "sentence_bert_config.json", config);
  return options;
}

}  // namespace qkv
