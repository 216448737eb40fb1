#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "qkv/text/tokenizer.h"

namespace qkv::testing {

/// A vocabulary that begins with [UNK] 0, [CLS] 1, [SEP] 2, [MASK] 3, [PAD] 4; `pieces` follow from id 5 on.
inline Vocab small_vocab(const std::vector<std::string>& pieces) {
  std::vector<std::string> tokens = {"[UNK]", "[CLS]", "[SEP]", "[MASK]", "[PAD]"};
  tokens.insert(tokens.end(), pieces.begin(), pieces.end());
  return Vocab(tokens);
}

/// The five special tokens of small_vocab as BERT has them: found as typed, anywhere.
inline std::vector<AddedToken> special_tokens() {
  std::vector<AddedToken> tokens;
  for (const char* content : {"[UNK]", "[CLS]", "[SEP]", "[MASK]", "[PAD]"}) {
    AddedToken token;
    token.id = static_cast<std::int32_t>(tokens.size());
    token.content = content;
    token.special = true;
    tokens.push_back(token);
  }
  return tokens;
}

/// BERT's tokeniser over small_vocab, with nothing put around the text.
inline TokenizerParts bare_parts(const std::vector<std::string>& pieces) {
  TokenizerParts parts;
  parts.vocab = small_vocab(pieces);
  parts.added_tokens = special_tokens();
  return parts;
}

/// The same with [CLS] and [SEP] around the text.
inline TokenizerParts bert_parts(const std::vector<std::string>& pieces) {
  TokenizerParts parts = bare_parts(pieces);
  parts.before = {1};
  parts.after = {2};
  return parts;
}

/// The characters of a text as UTF-8, without where they come from.
inline std::string to_string(std::span<const AlignedChar> text) {
  std::string bytes;
  for (const AlignedChar& c : text) append_utf8(c.code_point, bytes);
  return bytes;
}

/// Where the characters of a text come from.
inline std::vector<ByteRange> sources(std::span<const AlignedChar> text) {
  std::vector<ByteRange> result;
  for (const AlignedChar& c : text) result.push_back(c.source);
  return result;
}

}  // namespace qkv::testing

namespace qkv {
/// How GoogleTest prints a range.
inline void PrintTo(const ByteRange& range, std::ostream* out) {
  *out << '[' << range.begin << ',' << range.end << ')';
}
}  // namespace qkv
