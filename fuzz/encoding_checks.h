#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "fuzz/fuzz_support.h"
#include "qkv/text/tokenizer.h"
#include "qkv/text/unicode.h"
#include "qkv/text/utf8.h"

namespace qkv::fuzz {

inline bool is_white_space(std::string_view text) {
  return std::ranges::all_of(decode_utf8(text, "fuzz"),
                             [](AlignedChar c) { return qkv::is_white_space(c.code_point); });
}

/// What holds of every encoding: ids of the vocabulary, and offsets in order, within the text, between characters.
inline void check_encoding(const Tokenizer& tokenizer, std::string_view text, const Encoding& encoding) {
  const auto size = static_cast<std::size_t>(encoding.size());
  require(encoding.tokens.size() == size && encoding.offsets.size() == size && encoding.is_special.size() == size &&
              encoding.word_indices.size() == size,
          "one entry per token");
  const auto is_border = [&](Index byte) {
    return byte == static_cast<Index>(text.size()) || (static_cast<unsigned char>(text[byte]) & 0xc0) != 0x80;
  };
  ByteRange last;
  Index word = -1;
  for (std::size_t i = 0; i < size; ++i) {
    const ByteRange place = encoding.offsets[i];
    require(encoding.ids[i] >= 0 && encoding.ids[i] < tokenizer.vocab_size(), "an id of the vocabulary");
    if (!encoding.word_indices[i]) {
      require(encoding.is_special[i] && place == ByteRange{}, "what is put around the text has no place in it");
      require(encoding.tokens[i] == tokenizer.token_of(encoding.ids[i]), "a token as the vocabulary has it");
      continue;
    }
    require(0 <= place.begin && place.begin < place.end && place.end <= static_cast<Index>(text.size()),
            "a token stands for bytes of the text");
    require(is_border(place.begin) && is_border(place.end), "a token begins and ends between characters");
    require(place.begin >= last.begin, "tokens are in the order of the text");
    require(place.end >= last.end || is_white_space(text.substr(place.end, last.end - place.end)),
            "tokens share white space at most");
    require(*encoding.word_indices[i] == word || *encoding.word_indices[i] == word + 1, "words are counted");
    last = place;
    word = *encoding.word_indices[i];
  }
}

/// Encodes a text, by both ways to treat special tokens, and checks what comes of it.
inline void check_encode(const Tokenizer& tokenizer, std::string_view text) {
  const auto invalid = find_invalid_utf8(text);
  for (const bool parse_special : {true, false}) {
    try {
      const Encoding encoding = tokenizer.encode(text, {.parse_special = parse_special});
      require(!invalid, "only UTF-8 is encoded");
      check_encoding(tokenizer, text, encoding);
    } catch (const std::invalid_argument& error) {
      check_message(error.what());
      require(invalid && std::string_view(error.what()).find("at offset " + std::to_string(*invalid) + ",") !=
                             std::string_view::npos,
              "text is refused only where it is not UTF-8: " + std::string(error.what()));
    }
  }
}

/// A tokenizer that was read from a file works: every id has its token, and texts can be encoded.
inline void check_tokenizer(const Tokenizer& tokenizer) {
  constexpr Index kMostTokens = 64;
  check_encode(tokenizer, "Ab\u00c9 <x>[CLS]\u4e2d  don't\t##s e\u0301");
  for (std::int32_t id = 0; id < std::min(tokenizer.vocab_size(), kMostTokens); ++id) {
    const std::string& token = tokenizer.token_of(id);
    if (!token.empty()) require(tokenizer.id_of(token) == id, "a token has its id");
    check_encode(tokenizer, token + " " + token);
  }
}

}  // namespace qkv::fuzz
