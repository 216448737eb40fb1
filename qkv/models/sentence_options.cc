#include "qkv/models/sentence_options.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "qkv/models/json_file.h"

namespace qkv {

namespace {

namespace fs = std::filesystem;

constexpr Index kMinLength = 2;               // [CLS] and [SEP]
constexpr Index kMaxLength = Index{1} << 40;  // some folders say "no limit" by a huge number

bool file_exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
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
  const JsonFile file = read_json_file(path);
  const JsonFields fields(file, "");
  const char* dimension = fields.contains("embedding_dimension") ? "embedding_dimension" : "word_embedding_dimension";
  if (const Index dim = fields.integer(dimension, 1, kMaxLength, config.embed_dim); dim != config.embed_dim)
    fields.fail(dimension, "got " + std::to_string(dim) + ", expected " + std::to_string(config.embed_dim) +
                               ", the hidden_size of config.json");
  const std::string mode = fields.text("pooling_mode", "");
  std::vector<const PoolingFlag*> asked;
  for (const PoolingFlag& flag : kPoolingFlags)
    if (mode.empty() ? fields.flag(flag.key, false) : mode == flag.name) asked.push_back(&flag);
  const char* expected = "expected one of mean, cls and max";
  if (!mode.empty() && asked.empty()) fields.fail("pooling_mode", "got " + to_message(mode) + ", " + expected);
  if (asked.size() != 1)
    fields.fail("pooling_mode_*", "got " + std::to_string(asked.size()) + " modes that are true, " + expected);
  if (!asked[0]->pooling) fields.fail(asked[0]->key, std::string("got true, ") + expected);
  return *asked[0]->pooling;
}

Index load_max_tokens(const std::string& path, const BertConfig& config) {
  if (!file_exists(path)) return config.max_positions;
  const JsonFile file = read_json_file(path);
  return std::min(JsonFields(file, "").integer("max_seq_length", kMinLength, kMaxLength, config.max_positions),
                  config.max_positions);
}

struct Module {
  std::string kind;  // "Pooling" of "sentence_transformers.models.Pooling"
  fs::path folder;
};

// The modules of modules.json in their order.
std::vector<Module> load_modules(const JsonFile& file, const fs::path& folder) {
  if (!file.root.is_array()) file.fail("", "got " + to_message(file.root) + ", expected a list of modules");
  std::vector<Module> modules;
  for (std::size_t n = 0; n < file.root.size(); ++n) {
    const JsonFields fields(file, "/" + std::to_string(n));
    const std::string type = fields.text("type");
    const fs::path path = fields.text("path", "");
    // A folder of somebody else's may not send us anywhere else on this machine.
    if (path.is_absolute() || std::ranges::find(path, fs::path("..")) != path.end())
      fields.fail("path", "got " + to_message(path.string()) + ", expected a folder inside the model's");
    modules.push_back({type.substr(type.rfind('.') + 1), folder / path});
  }
  return modules;
}

void check_modules(const JsonFile& file, const std::vector<Module>& modules) {
  const std::array<std::string_view, 3> kSupported{"Transformer", "Pooling", "Normalize"};
  if (modules.size() < 2 || modules.size() > kSupported.size())
    file.fail(
        "", "got " + std::to_string(modules.size()) + " modules, expected Transformer, Pooling and perhaps Normalize");
  for (std::size_t n = 0; n < modules.size(); ++n)
    if (modules[n].kind != kSupported[n])
      file.fail("/" + std::to_string(n) + "/type", "type of module " + std::to_string(n) + ": got " +
                                                       to_message(modules[n].kind) + ", expected '" +
                                                       std::string(kSupported[n]) + "'");
}

}  // namespace

SentenceOptions load_sentence_options(const std::string& folder, const BertConfig& config) {
  const fs::path root(folder);
  SentenceOptions options{.pooling = Pooling::kMean, .normalize = false, .max_tokens = config.max_positions};
  if (!file_exists(root / "modules.json")) return options;
  const JsonFile file = read_json_file((root / "modules.json").string());
  const std::vector<Module> modules = load_modules(file, root);
  check_modules(file, modules);
  options.pooling = load_pooling((modules[1].folder / "config.json").string(), config);
  options.normalize = modules.size() == 3;
  options.max_tokens = load_max_tokens((root / "sentence_bert_config.json").string(), config);
  return options;
}

}  // namespace qkv
