#include "qkv/text/word_piece.h"

#include <gmock/gmock.h>

#include "tests/text/text_support.h"

namespace qkv::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> pieces(const Vocab& vocab, const std::string& word, const WordPiece& word_piece = {}) {
  std::vector<std::string> result;
  for (const Piece& piece : word_pieces(word_piece, vocab, decode_utf8(word, "test"))) {
    result.push_back(vocab.token_of(piece.id));
  }
  return result;
}

// https://github.com/ggml-org/llama.cpp/issues/5496
class WordPieceTest : public ::testing::Test {
 protected:
  Vocab vocab_ = small_vocab({"h", "##y", "##yu", "##u", "##ga", "un", "##aff"});
};

TEST_F(WordPieceTest, TheLongestPieceWins) {
  EXPECT_THAT(pieces(vocab_, "hyuga"), ElementsAre("h", "##yu", "##ga"));
}

TEST_F(WordPieceTest, AWordWithARemainderIsUnknownAsAWhole) {
  EXPECT_THAT(pieces(vocab_, "unaff"), ElementsAre("un", "##aff"));
  EXPECT_THAT(word_pieces({}, vocab_, decode_utf8("unaffx", "test")), ElementsAre(Piece{0, 0, 6}));
}

TEST_F(WordPieceTest, AWordOfOnePieceIsThatPiece) {
  EXPECT_THAT(pieces(vocab_, "h"), ElementsAre("h"));
}

TEST_F(WordPieceTest, AnEmptyWordHasNoPieces) {
  EXPECT_THAT(pieces(vocab_, ""), IsEmpty());
}

TEST_F(WordPieceTest, APieceIsNeverTakenBack) {
  // "ab" + "##c" would be found by backing off from "abc", which leaves "d" without a piece.
  const Vocab vocab = small_vocab({"ab", "abc", "##cd"});
  EXPECT_THAT(pieces(vocab, "abcd"), ElementsAre("[UNK]"));
}

TEST_F(WordPieceTest, TheFirstPieceHasNoPrefixAndTheOthersNeedIt) {
  const Vocab vocab = small_vocab({"a", "b", "##a"});
  EXPECT_THAT(pieces(vocab, "aa"), ElementsAre("a", "##a"));
  EXPECT_THAT(pieces(vocab, "ab"), ElementsAre("[UNK]"));
  EXPECT_THAT(pieces(small_vocab({"##a"}), "a"), ElementsAre("[UNK]"));
}

TEST_F(WordPieceTest, PiecesKnowTheirCharacters) {
  const Vocab vocab = small_vocab({"\u4e2d", "##\u00e9\u00e9", "##x"});
  EXPECT_THAT(word_pieces({}, vocab, decode_utf8("\u4e2d\u00e9\u00e9x", "test")),
              ElementsAre(Piece{5, 0, 1}, Piece{6, 1, 3}, Piece{7, 3, 4}));
}

TEST_F(WordPieceTest, AWordLongerThanTheLimitIsUnknownThoughItHasPieces) {
  const Vocab vocab = small_vocab({"a", "##a"});
  EXPECT_EQ(pieces(vocab, std::string(100, 'a')).size(), 100u);
  EXPECT_THAT(word_pieces({}, vocab, decode_utf8(std::string(101, 'a'), "test")), ElementsAre(Piece{0, 0, 101}));
}

TEST_F(WordPieceTest, TheLimitCountsCharactersNotBytes) {
  const Vocab vocab = small_vocab({"\u00e9", "##\u00e9"});
  std::string word;
  for (int i = 0; i < 100; ++i) word += "\u00e9";
  EXPECT_EQ(pieces(vocab, word).size(), 100u);
}

TEST_F(WordPieceTest, PrefixUnknownIdAndLimitAreParameters) {
  const Vocab vocab = small_vocab({"a", "@a"});
  const WordPiece word_piece{.unk_id = 3, .continuing_subword_prefix = "@", .max_input_chars_per_word = 2};
  EXPECT_THAT(pieces(vocab, "aa", word_piece), ElementsAre("a", "@a"));
  EXPECT_THAT(pieces(vocab, "aaa", word_piece), ElementsAre("[MASK]"));
}

TEST_F(WordPieceTest, AMillionCharactersWithoutALimitStayFast) {
  const Vocab vocab = small_vocab({"a", "##aa", "##a"});
  const WordPiece word_piece{.unk_id = 0, .continuing_subword_prefix = "##", .max_input_chars_per_word = 1 << 30};
  EXPECT_EQ(word_pieces(word_piece, vocab, decode_utf8(std::string(1'000'001, 'a'), "test")).size(), 500'001u);
}

}  // namespace
}  // namespace qkv::testing
