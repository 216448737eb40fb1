#pragma once

#include <optional>
#include <span>
#include <vector>

#include "qkv/text/utf8.h"

namespace qkv {

/// The switches of BERT's normaliser, under the names of tokenizer.json.
struct BertNormalizer {
  bool clean_text = true;             ///< control characters go, every kind of white space becomes a blank
  bool handle_chinese_chars = true;   ///< blanks around every ideograph, which makes each a word
  std::optional<bool> strip_accents;  ///< absent: as `lowercase`
  bool lowercase = true;              ///< every letter becomes a small one
};

/// Applies the normaliser: clean, space ideographs, decompose (NFD) and strip accents, lower-case, in this order.
/// Each character of the result keeps the bytes of the input it comes from; one that was inserted has the bytes of the
/// character before it, as in `tokenizers`.
AlignedText normalize(const BertNormalizer& normalizer, AlignedText text);

/// Cuts a normalised text at white space, which is dropped, and around punctuation, each sign a word of its own.
/// Returns views into `text`, none empty.
std::vector<std::span<const AlignedChar>> split_words(std::span<const AlignedChar> text);

}  // namespace qkv
