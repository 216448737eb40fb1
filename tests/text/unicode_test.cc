#include "qkv/text/unicode.h"

#include <gmock/gmock.h>

#include <vector>

// What each function says of all code points is compared with `tokenizers` in tests/parity; here one example of each
// rule.

namespace qkv {
namespace {

TEST(Unicode, CleaningRemovesControlFormatAndPrivateUse) {
  for (const char32_t c :
       {0x0, 0x7, 0xb, 0xc, 0x1f, 0x7f, 0x85, 0xad, 0x200b, 0x200d, 0xfeff, 0xe000, 0xfffd, 0xe0001}) {
    EXPECT_TRUE(is_removed_by_cleaning(c)) << static_cast<int>(c);
  }
}

TEST(Unicode, CleaningKeepsTabLineEndsUnassignedAndVisible) {
  for (const char32_t c : {0x9, 0xa, 0xd, 0x20, 0x41, 0x301, 0x378, 0x2028, 0x1f600}) {
    EXPECT_FALSE(is_removed_by_cleaning(c)) << static_cast<int>(c);
  }
}

TEST(Unicode, FormatCharactersYoungerThanUnicode8AreKept) {
  EXPECT_FALSE(is_removed_by_cleaning(0x8e2));
  EXPECT_FALSE(is_removed_by_cleaning(0x13430));
}

TEST(Unicode, WhiteSpaceIsTwentyFiveCharacters) {
  std::vector<char32_t> found;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (is_white_space(c)) found.push_back(c);
  }
  EXPECT_THAT(found, ::testing::ElementsAre(0x9, 0xa, 0xb, 0xc, 0xd, 0x20, 0x85, 0xa0, 0x1680, 0x2000, 0x2001, 0x2002,
                                            0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200a, 0x2028,
                                            0x2029, 0x202f, 0x205f, 0x3000));
}

TEST(Unicode, IdeographRangesEndWhereBertEndsThem) {
  for (const char32_t c : {0x3400, 0x4dbf, 0x4e00, 0x9fff, 0xf900, 0xfaff, 0x20000, 0x2a6df, 0x2a700, 0x2b81f, 0x2b920,
                           0x2ceaf, 0x2f800, 0x2fa1f}) {
    EXPECT_TRUE(is_cjk_ideograph(c)) << static_cast<int>(c);
  }
  for (const char32_t c : {0x33ff, 0x4dc0, 0xa000, 0xfb00, 0x2a6e0, 0x2b820, 0x2b91f, 0x2ceb0, 0x3042, 0xac00}) {
    EXPECT_FALSE(is_cjk_ideograph(c)) << static_cast<int>(c);
  }
}

TEST(Unicode, EveryAsciiSymbolIsPunctuation) {
  for (char32_t c = 0x21; c < 0x7f; ++c) {
    const bool is_letter_or_digit = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    EXPECT_EQ(is_bert_punctuation(c), !is_letter_or_digit) << static_cast<char>(c);
  }
}

TEST(Unicode, UnicodePunctuationCountsButSymbolsDoNot) {
  for (const char32_t c : {0xa1, 0xab, 0xbf, 0x2014, 0x2026, 0x3002, 0xff0c, 0x166d})
    EXPECT_TRUE(is_bert_punctuation(c));
  for (const char32_t c : {0xa2, 0xa9, 0xb1, 0x20ac, 0x2192, 0x1f600}) EXPECT_FALSE(is_bert_punctuation(c));
}

TEST(Unicode, PunctuationYoungerThanUnicode8IsNone) {
  EXPECT_TRUE(is_bert_punctuation(0x2e42));
  EXPECT_FALSE(is_bert_punctuation(0x2e43));
}

TEST(Unicode, NonspacingMarksAreThoseOfUnicode8) {
  for (const char32_t c : {0x300, 0x36f, 0x5b0, 0x64b, 0x94d, 0x1734, 0x20d0}) EXPECT_TRUE(is_nonspacing_mark(c));
  for (const char32_t c : {0x65, 0x903, 0x20dd, 0x111c9, 0x8d4, 0x1e944}) EXPECT_FALSE(is_nonspacing_mark(c));
}

TEST(Unicode, WordCharactersAreLettersMarksDigitsConnectorsAndJoiners) {
  for (const char32_t c : {0x61, 0x39, 0x5f, 0xe9, 0x301, 0x903, 0x2160, 0x203f, 0x200d, 0x24b6, 0x4e2d, 0x1f130}) {
    EXPECT_TRUE(is_word_character(c)) << static_cast<int>(c);
  }
  for (const char32_t c : {0x20, 0x2d, 0x2e, 0xb2, 0x200b, 0x2014, 0x1f600}) {
    EXPECT_FALSE(is_word_character(c)) << static_cast<int>(c);
  }
}

TEST(Unicode, LowerCaseIsOneCharacterSaveForCapitalIWithDot) {
  EXPECT_EQ(to_lower(U'A'), U"a");
  EXPECT_EQ(to_lower(U'a'), U"a");
  EXPECT_EQ(to_lower(0xc9), U"\u00e9");
  EXPECT_EQ(to_lower(0x3a3), U"\u03c3");   // capital sigma, at the end of a word as well
  EXPECT_EQ(to_lower(0x1e9e), U"\u00df");  // capital sharp s
  EXPECT_EQ(to_lower(0x130), U"i\u0307");
}

TEST(Unicode, CapitalsOfUnicode16And17HaveLowerCase) {
  EXPECT_EQ(to_lower(0xa7dc), U"\u019b");
  EXPECT_EQ(to_lower(0x10d50), U"\U00010d70");
  EXPECT_EQ(to_lower(0x16ea0), U"\U00016ebb");
}

TEST(Unicode, DecompositionIsCanonicalAndFull) {
  EXPECT_EQ(decompose(0xe9), U"e\u0301");
  EXPECT_EQ(decompose(0x1e69), U"s\u0323\u0307");
  EXPECT_EQ(decompose(0xac01), U"\u1100\u1161\u11a8");
  EXPECT_EQ(decompose(0x212b), U"A\u030a");
  EXPECT_EQ(decompose(0xfb01), U"\ufb01");  // the ligature fi has a compatibility decomposition only
  EXPECT_EQ(decompose(U'a'), U"a");
}

TEST(Unicode, CharactersYoungerThanUnicode9StayWholeAndInPlace) {
  EXPECT_EQ(decompose(0x11938), std::u32string(1, 0x11938));
  EXPECT_EQ(combining_class(0x8d3), 0);
  EXPECT_EQ(combining_class(0x8d4), 230);
  EXPECT_EQ(combining_class(0x11c3f), 9);
}

}  // namespace
}  // namespace qkv
