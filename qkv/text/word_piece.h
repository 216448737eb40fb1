#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "qkv/text/utf8.h"
#include "qkv/text/vocab.h"

namespace qkv {

/// The parameters of WordPiece, under the names of tokenizer.json.
struct WordPiece {
  std::int32_t unk_id = 0;                       ///< what a word becomes that has no pieces
  std::string continuing_subword_prefix = "##";  ///< in front of every piece but the first of a word
  Index max_input_chars_per_word = 100;          ///< a longer word is unknown without being looked at
};

/// A token and the characters [begin, end) of the word that it stands for.
struct Piece {
  std::int32_t id = 0;  ///< of the token
  Index begin = 0;      ///< its first character
  Index end = 0;        ///< one past the last

  /// Field by field.
  friend bool operator==(const Piece&, const Piece&) = default;
};

/// Cuts a word into pieces: from the left, always the longest piece of the vocabulary, never taken back. A word for
/// which that ends in a remainder without a piece becomes one unknown token as a whole. Edge: an empty word has no
/// pieces. Cost: O(max_input_chars_per_word * longest token) look-ups. Source: Wu et al., arXiv:1609.08144,
/// section 4.1; BERT's tokenisation, arXiv:1810.04805.
std::vector<Piece> word_pieces(const WordPiece& word_piece, const Vocab& vocab, std::span<const AlignedChar> word);

}  // namespace qkv
