#include "qkv/text/vocab_txt.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <unordered_map>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/in_quotes.h"
#include "qkv/text/json_file.h"

namespace qkv {
namespace {

Vocab read_lines(const std::string& path) {
  const std::string text = read_text_file(path);
  if (const auto invalid = find_invalid_utf8(text)) {
    throw FormatError(path, static_cast<std::uint64_t>(*invalid), "text: got another byte, expected valid UTF-8");
  }
  std::vector<std::string> tokens;
  std::unordered_map<std::string, std::size_t> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string token = text.substr(begin, end - begin);
    if (!token.empty() && token.back() == '\r') token.pop_back();
    const auto [first, is_new] = lines.try_emplace(token, tokens.size() + 1);
    if (!is_new && !token.empty()) {
      throw FormatError(path, begin,
                        "line " + std::to_string(tokens.size() + 1) + ": got " + in_quotes(token) + ", which is line " +
                            std::to_string(first->second) + ", expected each token once");
    }
    tokens.push_back(std::move(token));
    begin = end + 1;
  }
  return Vocab(std::move(tokens));
}

void check_class(const JsonNode& config) {
  constexpr std::array kClasses = {"BertTokenizer",           "BertTokenizerFast", "DistilBertTokenizer",
                                   "DistilBertTokenizerFast", "ElectraTokenizer",  "ElectraTokenizerFast"};
  if (const auto node = find_child(config, "tokenizer_class")) {
    const std::string name = get_string(*node);
    if (std::find(kClasses.begin(), kClasses.end(), name) == kClasses.end()) {
      throw_bad_value(*node, show(*node), "\"BertTokenizer\" or its like, or a tokenizer.json");
    }
  }
  if (!get_bool_or(config, "do_basic_tokenize", true)) {
    throw_bad_value(get_child(config, "do_basic_tokenize"), "false", "true");
  }
}

// A special token as `text` gives its name, or as an object with flags.
AddedToken read_special_token(const std::optional<JsonNode>& node, const std::string& fallback) {
  AddedToken token;
  token.content = fallback;
  token.special = true;
  if (!node) return token;
  if (!node->value->is_object()) {
    token.content = get_string(*node);
    return token;
  }
  token.content = get_string(get_child(*node, "content"));
  token.single_word = get_bool_or(*node, "single_word", false);
  token.lstrip = get_bool_or(*node, "lstrip", false);
  token.rstrip = get_bool_or(*node, "rstrip", false);
  token.normalized = get_bool_or(*node, "normalized", false);
  return token;
}

struct SpecialName {
  const char* key;
  const char* fallback;
  bool is_required;
};
constexpr SpecialName kSpecialNames[] = {
    {"unk_token", "[UNK]", true},  {"cls_token", "[CLS]", true},    {"sep_token", "[SEP]", true},
    {"pad_token", "[PAD]", false}, {"mask_token", "[MASK]", false},
};

void add_once(AddedToken token, std::int32_t id, TokenizerParts& parts) {
  token.id = id;
  const bool is_known = std::any_of(parts.added_tokens.begin(), parts.added_tokens.end(),
                                    [&](const AddedToken& other) { return other.id == id; });
  if (!is_known) parts.added_tokens.push_back(std::move(token));
}

std::optional<std::int32_t> add_special_token(const SpecialName& name, const std::optional<JsonNode>& config,
                                              const std::string& vocab_path, TokenizerParts& parts) {
  AddedToken token = read_special_token(config ? find_child(*config, name.key) : std::nullopt, name.fallback);
  const auto id = parts.vocab.id_of(token.content);
  if (!id && name.is_required) {
    throw FormatError(vocab_path, 0,
                      std::string(name.key) + ": got no " + in_quotes(token.content) + " in " +
                          std::to_string(parts.vocab.size()) + " lines, expected it on one");
  }
  if (id) add_once(std::move(token), *id, parts);
  return id;
}

// The list that newer files have beside the five names. Its keys are ids as text.
void add_listed_tokens(const JsonNode& config, TokenizerParts& parts) {
  const auto list = find_child(config, "added_tokens_decoder");
  if (!list) return;
  for (const std::string& key : get_keys(*list)) {
    const JsonNode node = get_child(*list, key);
    AddedToken token = read_special_token(node, "");
    token.special = get_bool_or(node, "special", false);
    const auto id = parts.vocab.id_of(token.content);
    if (!id || std::to_string(*id) != key) {
      throw_bad_value(*list, "id " + in_quotes(key) + " for " + in_quotes(token.content),
                      "a token and its id as in vocab.txt, or a tokenizer.json");
    }
    add_once(std::move(token), *id, parts);
  }
}

}  // namespace

TokenizerParts read_vocab_txt(const std::string& vocab_path, const std::string& config_path) {
  TokenizerParts parts;
  parts.vocab = read_lines(vocab_path);
  std::optional<JsonFile> file;
  std::optional<JsonNode> config;
  std::error_code ignored;  // what cannot be looked at is reported when it is opened
  if (std::filesystem::exists(config_path, ignored)) {
    file = read_json_file(config_path);
    config = root_of(*file);
    check_class(*config);
    parts.normalizer.lowercase = get_bool_or(*config, "do_lower_case", true);
    parts.normalizer.handle_chinese_chars = get_bool_or(*config, "tokenize_chinese_chars", true);
    if (const auto strip = find_child(*config, "strip_accents")) parts.normalizer.strip_accents = get_bool(*strip);
  }
  std::array<std::optional<std::int32_t>, std::size(kSpecialNames)> ids{};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = add_special_token(kSpecialNames[i], config, vocab_path, parts);
  }
  if (config) add_listed_tokens(*config, parts);
  parts.word_piece.unk_id = *ids[0];
  parts.before = {*ids[1]};
  parts.after = {*ids[2]};
  return parts;
}

}  // namespace qkv
