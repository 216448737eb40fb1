#include "qkv/text/word_piece.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace qkv {
namespace {

// The longest piece that begins at character `begin`. `ends[i]` is the end of character i in `bytes`.
std::optional<Piece> longest_piece(const WordPiece& word_piece, const Vocab& vocab, std::string_view bytes,
                                   const std::vector<Index>& ends, Index begin) {
  const Index first_byte = begin == 0 ? 0 : ends[static_cast<std::size_t>(begin - 1)];
  std::string candidate = begin == 0 ? std::string() : word_piece.continuing_subword_prefix;
  const Index before = static_cast<Index>(candidate.size()) - first_byte;  // place in candidate minus place in bytes
  const auto too_long = std::upper_bound(ends.begin() + begin, ends.end(), vocab.longest_token() - before);
  const auto longest = static_cast<Index>(too_long - ends.begin());
  if (longest <= begin) return std::nullopt;
  const Index last_byte = ends[static_cast<std::size_t>(longest - 1)];
  candidate += bytes.substr(static_cast<std::size_t>(first_byte), static_cast<std::size_t>(last_byte - first_byte));
  for (Index end = longest; end > begin; --end) {
    candidate.resize(static_cast<std::size_t>(before + ends[static_cast<std::size_t>(end - 1)]));
    if (const auto id = vocab.id_of(candidate)) return Piece{*id, begin, end};
  }
  return std::nullopt;
}

}  // namespace

std::vector<Piece> word_pieces(const WordPiece& word_piece, const Vocab& vocab, std::span<const AlignedChar> word) {
  const auto length = static_cast<Index>(word.size());
  const Piece unknown{word_piece.unk_id, 0, length};
  if (length > word_piece.max_input_chars_per_word) return {unknown};

  std::string bytes;
  std::vector<Index> ends;
  for (const AlignedChar& c : word) {
    append_utf8(c.code_point, bytes);
    ends.push_back(static_cast<Index>(bytes.size()));
  }
  std::vector<Piece> pieces;
  for (Index begin = 0; begin < length; begin = pieces.back().end) {
    const auto piece = longest_piece(word_piece, vocab, bytes, ends, begin);
    if (!piece) return {unknown};
    pieces.push_back(*piece);
  }
  return pieces;
}

}  // namespace qkv
