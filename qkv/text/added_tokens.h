#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "qkv/text/basic_tokenizer.h"
#include "qkv/text/utf8.h"

namespace qkv {

/// A token that is looked for in the text itself, before words are cut. The fields are those of tokenizer.json.
struct AddedToken {
  std::int32_t id = 0;       ///< what the model reads
  std::string content;       ///< valid UTF-8
  bool single_word = false;  ///< only where no letter, digit or mark touches it
  bool lstrip = false;       ///< takes the white space before it along
  bool rstrip = false;       ///< takes the white space after it along
  bool normalized = false;   ///< true: looked for in the normalised text, its content normalised too; false: as typed
  bool special = false;      ///< [CLS] and its like: no word of the text
};

/// A stretch of text: an added token, or, where `added` is null, text still to be cut.
struct TextPart {
  std::span<const AlignedChar> text;  ///< its characters
  const AddedToken* added = nullptr;  ///< borrowed from the finder; null: text
};

/// A set of added tokens that are searched together.
class AddedTokenFinder {
 public:
  AddedTokenFinder() = default;
  /// Takes those `tokens` whose flag `normalized` is `normalized`. If several have one content, the first is found; one
  /// whose content is empty, perhaps only once normalised, never is.
  /// Errors: std::invalid_argument for a content that is not UTF-8.
  AddedTokenFinder(std::span<const AddedToken> tokens, const BertNormalizer& normalizer, bool normalized);

  /// Cuts `text` at the tokens found: leftmost first, of those that begin at one place the longest; no overlaps.
  /// The parts follow each other, cover the text (but for white space swallowed twice) and are not empty.
  /// Edge: with parse_special = false a special token is left in the text, yet still hides tokens that it overlaps.
  /// Cost: O(text length * longest content) if no two contents share a first character.
  std::vector<TextPart> split(std::span<const AlignedChar> text, bool parse_special) const;

 private:
  struct Pattern {
    std::u32string content;
    AddedToken token;
  };

  const Pattern* pattern_at(std::span<const AlignedChar> text) const;

  std::unordered_map<char32_t, std::vector<Pattern>> by_first_;  // each list from long to short
};

}  // namespace qkv
