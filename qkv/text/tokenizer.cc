#include "qkv/text/tokenizer.h"

#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "qkv/core/check.h"
#include "qkv/core/error.h"
#include "qkv/text/tokenizer_json.h"
#include "qkv/text/vocab_txt.h"

namespace qkv {
namespace {

struct Token {
  std::int32_t id;
  std::string text;
  ByteRange offsets;
  bool is_special;
  std::optional<Index> word_index;
};

void append(Encoding& encoding, Token token) {
  encoding.ids.push_back(token.id);
  encoding.tokens.push_back(std::move(token.text));
  encoding.offsets.push_back(token.offsets);
  encoding.is_special.push_back(token.is_special);
  encoding.word_indices.push_back(token.word_index);
}

std::string to_utf8(std::span<const AlignedChar> text) {
  std::string bytes;
  for (const AlignedChar& c : text) append_utf8(c.code_point, bytes);
  return bytes;
}

ByteRange source_of(std::span<const AlignedChar> text) {
  return {text.front().source.begin, text.back().source.end};
}

}  // namespace

std::optional<std::int32_t> find_id(const TokenizerParts& parts, std::string_view token) {
  if (const auto id = parts.vocab.id_of(token)) return id;
  if (const auto extra = parts.extra_tokens.id_of(token)) {
    return static_cast<std::int32_t>(parts.vocab.size() + *extra);
  }
  return std::nullopt;
}

Tokenizer::Tokenizer(TokenizerParts parts)
    : parts_(std::move(parts)),
      typed_tokens_(parts_.added_tokens, parts_.normalizer, false),
      normalized_tokens_(parts_.added_tokens, parts_.normalizer, true) {
  const auto check_id = [](const char* what, std::int32_t id, Index num_ids) {
    check(id >= 0 && id < num_ids, "Tokenizer", what, id, "0 <= id < " + std::to_string(num_ids));
  };
  check_id("unk_id", parts_.word_piece.unk_id, parts_.vocab.size());
  for (const std::int32_t id : parts_.before) check_id("before", id, vocab_size());
  for (const std::int32_t id : parts_.after) check_id("after", id, vocab_size());
  for (const AddedToken& token : parts_.added_tokens) {
    check(find_id(parts_, token.content) == token.id, "Tokenizer", "id of an added token", token.id,
          "that of its content");
  }
}

const std::string& Tokenizer::token_of(std::int32_t id) const {
  if (id < 0 || id >= vocab_size()) {
    throw std::out_of_range("token_of: id: got " + std::to_string(id) + ", expected 0 <= id < " +
                            std::to_string(vocab_size()));
  }
  const auto extra = id - static_cast<std::int32_t>(parts_.vocab.size());
  return extra < 0 ? parts_.vocab.token_of(id) : parts_.extra_tokens.token_of(extra);
}

Tokenizer Tokenizer::load(const std::string& folder) {
  const std::filesystem::path path(folder);
  // A link to nothing is there, and reported when it is opened, as all is that cannot be looked at.
  const auto is_there = [](const std::filesystem::path& file) {
    std::error_code ignored;
    return std::filesystem::symlink_status(file, ignored).type() != std::filesystem::file_type::not_found;
  };
  if (is_there(path / "tokenizer.json")) return Tokenizer(read_tokenizer_json(path / "tokenizer.json"));
  if (is_there(path / "vocab.txt")) {
    return Tokenizer(read_vocab_txt(path / "vocab.txt", path / "tokenizer_config.json"));
  }
  throw IoError((path / "tokenizer.json").string() + " or vocab.txt", "open", ENOENT);
}

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  const AlignedText characters = decode_utf8(text, "encode");
  Encoding encoding;
  Index num_words = 0;
  for (const auto id : parts_.before) append(encoding, {id, token_of(id), {}, true, std::nullopt});
  for (const TextPart& part : typed_tokens_.split(characters, options.parse_special)) {
    if (part.added != nullptr) {
      encode_part(part, encoding, num_words);
      continue;
    }
    const AlignedText normalized = normalize(parts_.normalizer, {part.text.begin(), part.text.end()});
    for (const TextPart& inner : normalized_tokens_.split(normalized, options.parse_special)) {
      encode_part(inner, encoding, num_words);
    }
  }
  for (const auto id : parts_.after) append(encoding, {id, token_of(id), {}, true, std::nullopt});
  return encoding;
}

void Tokenizer::encode_part(const TextPart& part, Encoding& encoding, Index& num_words) const {
  if (part.added != nullptr) {
    append(encoding, {part.added->id, to_utf8(part.text), source_of(part.text), part.added->special, num_words++});
    return;
  }
  for (const auto& word : split_words(part.text)) {
    for (const Piece& piece : word_pieces(parts_.word_piece, parts_.vocab, word)) {
      const auto characters =
          word.subspan(static_cast<std::size_t>(piece.begin), static_cast<std::size_t>(piece.end - piece.begin));
      append(encoding, {piece.id, token_of(piece.id), source_of(characters), false, num_words});
    }
    ++num_words;
  }
}

}  // namespace qkv
