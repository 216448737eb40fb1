#include "qkv/text/tokenizer_json.h"

#include <limits>
#include <unordered_set>
#include <utility>

#include "qkv/core/in_quotes.h"
#include "qkv/text/json_file.h"

namespace qkv {
namespace {

constexpr Index kLargestId = std::numeric_limits<std::int32_t>::max();

[[noreturn]] void throw_unsupported(const JsonNode& type, const std::string& supported) {
  throw_bad_value(type, show(type), supported);
}

// Models written before types were stored are told by their fields, as `tokenizers` does.
void check_model_type(const JsonNode& model) {
  if (const auto type = find_child(model, "type")) {
    if (get_string(*type) != "WordPiece") throw_unsupported(*type, "\"WordPiece\"");
    return;
  }
  if (find_child(model, "merges") || !find_child(model, "max_input_chars_per_word")) {
    throw_bad_value(model, "no type and the fields of another model", "type \"WordPiece\"");
  }
}

Vocab read_vocab(const JsonNode& node) {
  const std::vector<std::string> keys = get_keys(node);
  std::vector<std::string> tokens(keys.size());
  std::vector<bool> is_taken(keys.size());
  for (const std::string& key : keys) {
    const JsonNode entry = get_child(node, key);
    const auto id = static_cast<std::size_t>(get_index(entry, 0, kLargestId));
    if (id >= keys.size() || is_taken[id]) {
      throw_bad_value(entry, "id " + std::to_string(id),
                      "the ids 0 to " + std::to_string(keys.size() - 1) + ", each once");
    }
    is_taken[id] = true;
    tokens[id] = key;
  }
  return Vocab(std::move(tokens));
}

WordPiece read_word_piece(const JsonNode& model, const Vocab& vocab) {
  WordPiece word_piece;
  const JsonNode unk_token = get_child(model, "unk_token");
  const auto unk_id = vocab.id_of(get_string(unk_token));
  if (!unk_id) throw_bad_value(unk_token, show(unk_token), "a token of the vocabulary");
  word_piece.unk_id = *unk_id;
  word_piece.continuing_subword_prefix = get_string(get_child(model, "continuing_subword_prefix"));
  word_piece.max_input_chars_per_word = get_index(get_child(model, "max_input_chars_per_word"), 0, kLargestId);
  return word_piece;
}

BertNormalizer read_normalizer(const JsonNode& root) {
  const auto node = find_child(root, "normalizer");
  if (!node) return {.clean_text = false, .handle_chinese_chars = false, .strip_accents = false, .lowercase = false};
  const JsonNode type = get_child(*node, "type");
  if (get_string(type) != "BertNormalizer") throw_unsupported(type, "\"BertNormalizer\" or no normalizer");
  BertNormalizer normalizer;
  normalizer.clean_text = get_bool(get_child(*node, "clean_text"));
  normalizer.handle_chinese_chars = get_bool(get_child(*node, "handle_chinese_chars"));
  normalizer.lowercase = get_bool(get_child(*node, "lowercase"));
  if (const auto strip = find_child(*node, "strip_accents")) normalizer.strip_accents = get_bool(*strip);
  return normalizer;
}

AddedToken read_added_token(const JsonNode& node) {
  AddedToken token;
  token.id = static_cast<std::int32_t>(get_index(get_child(node, "id"), 0, kLargestId));
  token.content = get_string(get_child(node, "content"));
  token.single_word = get_bool(get_child(node, "single_word"));
  token.lstrip = get_bool(get_child(node, "lstrip"));
  token.rstrip = get_bool(get_child(node, "rstrip"));
  token.normalized = get_bool(get_child(node, "normalized"));
  token.special = get_bool(get_child(node, "special"));
  return token;
}

// An added token is one of the vocabulary, or gets the id that follows.
void read_added_tokens(const JsonNode& root, TokenizerParts& parts) {
  const auto list = find_child(root, "added_tokens");
  if (!list) return;
  std::unordered_set<std::int32_t> seen;
  for (const JsonNode& node : get_elements(*list)) {
    AddedToken token = read_added_token(node);
    if (token.content.empty()) throw_bad_value(node, "an empty content", "at least one character");
    const auto known_id = find_id(parts, token.content);
    const Index expected = known_id ? *known_id : parts.vocab.size() + parts.extra_tokens.size();
    if (token.id != expected) {
      throw_bad_value(node, "id " + std::to_string(token.id) + " for " + in_quotes(token.content),
                      std::to_string(expected) + (known_id ? ", as in the vocabulary" : ", the next free id"));
    }
    if (!known_id) parts.extra_tokens.append(token.content);
    if (!seen.insert(token.id).second) {
      throw_bad_value(node, in_quotes(token.content) + " again", "each added token once");
    }
    parts.added_tokens.push_back(std::move(token));
  }
}

void check_known(const TokenizerParts& parts, const JsonNode& node, const std::string& token, Index id) {
  const auto known_id = find_id(parts, token);
  if (known_id && *known_id == id) return;
  throw_bad_value(node, "id " + std::to_string(id) + " for " + in_quotes(token),
                  known_id ? std::to_string(*known_id) + ", as in the vocabulary" : "a token of the vocabulary");
}

// The ids that a special token of a template stands for.
std::vector<std::int32_t> read_template_token(const JsonNode& processor, const std::string& name,
                                              const TokenizerParts& parts) {
  const JsonNode special_tokens = get_child(processor, "special_tokens");
  const auto entry = find_child(special_tokens, name);
  if (!entry) throw_bad_value(special_tokens, "no entry for " + in_quotes(name), "one for every token of the template");
  const auto ids = get_elements(get_child(*entry, "ids"));
  const auto tokens = get_elements(get_child(*entry, "tokens"));
  if (ids.size() != tokens.size()) {
    throw_bad_value(special_tokens,
                    std::to_string(ids.size()) + " ids and " + std::to_string(tokens.size()) + " tokens",
                    "as many ids as tokens");
  }
  std::vector<std::int32_t> result;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Index id = get_index(ids[i], 0, kLargestId);
    check_known(parts, special_tokens, get_string(tokens[i]), id);
    result.push_back(static_cast<std::int32_t>(id));
  }
  return result;
}

void read_template(const JsonNode& processor, TokenizerParts& parts) {
  bool is_text_seen = false;
  for (const JsonNode& element : get_elements(get_child(processor, "single"))) {
    const auto text = find_child(element, "Sequence");
    const JsonNode piece = text ? *text : get_child(element, "SpecialToken");
    const std::string name = get_string(get_child(piece, "id"));
    get_index(get_child(piece, "type_id"), 0, 0);  // an Encoding has no types: all are 0
    if (!text) {
      auto& side = is_text_seen ? parts.after : parts.before;
      const auto ids = read_template_token(processor, name, parts);
      side.insert(side.end(), ids.begin(), ids.end());
      continue;
    }
    if (name != "A" || is_text_seen) throw_bad_value(piece, "sequence " + in_quotes(name), "sequence \"A\" once");
    is_text_seen = true;
  }
  if (!is_text_seen) throw_bad_value(get_child(processor, "single"), "no sequence", "sequence \"A\" once");
}

// BertProcessing stores a pair [token, id] for each end.
std::vector<std::int32_t> read_pair(const JsonNode& pair, const TokenizerParts& parts) {
  const auto elements = get_elements(pair);
  if (elements.size() != 2) throw_bad_value(pair, std::to_string(elements.size()) + " elements", "a token and its id");
  const Index id = get_index(elements[1], 0, kLargestId);
  check_known(parts, pair, get_string(elements[0]), id);
  return {static_cast<std::int32_t>(id)};
}

void read_post_processor(const JsonNode& root, TokenizerParts& parts) {
  const auto processor = find_child(root, "post_processor");
  if (!processor) return;
  const JsonNode type = get_child(*processor, "type");
  const std::string name = get_string(type);
  if (name == "TemplateProcessing") {
    read_template(*processor, parts);
  } else if (name == "BertProcessing") {
    parts.before = read_pair(get_child(*processor, "cls"), parts);
    parts.after = read_pair(get_child(*processor, "sep"), parts);
  } else {
    throw_unsupported(type, "\"TemplateProcessing\", \"BertProcessing\" or no post_processor");
  }
}

void check_other_types(const JsonNode& root) {
  const JsonNode pre_tokenizer = get_child(get_child(root, "pre_tokenizer"), "type");
  if (get_string(pre_tokenizer) != "BertPreTokenizer") throw_unsupported(pre_tokenizer, "\"BertPreTokenizer\"");
  if (const auto decoder = find_child(root, "decoder")) {
    const JsonNode type = get_child(*decoder, "type");
    if (get_string(type) != "WordPiece") throw_unsupported(type, "\"WordPiece\" or no decoder");
  }
}

}  // namespace

TokenizerParts parse_tokenizer_json(std::string_view text, const std::string& path) {
  const JsonFile file = parse_json(std::string(text), path);
  const JsonNode root = root_of(file);
  const JsonNode model = get_child(root, "model");
  check_model_type(model);
  check_other_types(root);
  TokenizerParts parts;
  parts.vocab = read_vocab(get_child(model, "vocab"));
  parts.word_piece = read_word_piece(model, parts.vocab);
  parts.normalizer = read_normalizer(root);
  read_added_tokens(root, parts);
  read_post_processor(root, parts);
  return parts;
}

TokenizerParts read_tokenizer_json(const std::string& path) {
  return parse_tokenizer_json(read_text_file(path), path);
}

}  // namespace qkv
