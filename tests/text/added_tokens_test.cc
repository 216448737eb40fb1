#include "qkv/text/added_tokens.h"

#include <gmock/gmock.h>

#include "tests/text/text_support.h"

namespace qkv::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

AddedToken token(const std::string& content) {
  AddedToken result;
  result.content = content;
  return result;
}

// The parts of a text, the added tokens in angle brackets.
std::vector<std::string> split(const std::vector<AddedToken>& tokens, const std::string& text,
                               bool parse_special = true) {
  const AddedTokenFinder finder(tokens, {}, false);
  const AlignedText characters = decode_utf8(text, "test");
  std::vector<std::string> parts;
  for (const TextPart& part : finder.split(characters, parse_special)) {
    parts.push_back(part.added ? "<" + to_string(part.text) + ">" : to_string(part.text));
  }
  return parts;
}

TEST(AddedTokens, AreFoundAnywhereAndCutTheText) {
  EXPECT_THAT(split({token("[X]")}, "a[X]b [X][X]"), ElementsAre("a", "<[X]>", "b ", "<[X]>", "<[X]>"));
}

TEST(AddedTokens, WithoutAnyTheTextIsOnePart) {
  EXPECT_THAT(split({}, "abc"), ElementsAre("abc"));
  EXPECT_THAT(split({}, ""), IsEmpty());
}

TEST(AddedTokens, CaseMatters) {
  EXPECT_THAT(split({token("[X]")}, "[x]"), ElementsAre("[x]"));
}

TEST(AddedTokens, TheLeftmostThenTheLongestWins) {
  EXPECT_THAT(split({token("ab"), token("abc"), token("bcd")}, "abcd"), ElementsAre("<abc>", "d"));
  EXPECT_THAT(split({token("ab"), token("bcd")}, "abcd"), ElementsAre("<ab>", "cd"));
}

TEST(AddedTokens, SingleWordNeedsNoLetterDigitOrMarkBeside) {
  AddedToken word = token("x");
  word.single_word = true;
  EXPECT_THAT(split({word}, "x"), ElementsAre("<x>"));
  EXPECT_THAT(split({word}, "-x."), ElementsAre("-", "<x>", "."));
  EXPECT_THAT(split({word}, "ax x1 x_ x\u0301"), ElementsAre("ax x1 x_ x\u0301"));
}

TEST(AddedTokens, AMatchRefusedForSingleWordHidesWhatItCovers) {
  AddedToken word = token("ab");
  word.single_word = true;
  EXPECT_THAT(split({word, token("b")}, "abc"), ElementsAre("abc"));
}

TEST(AddedTokens, StripFlagsTakeTheWhiteSpaceAlong) {
  AddedToken left = token("x");
  left.lstrip = true;
  EXPECT_THAT(split({left}, "a \u3000x b"), ElementsAre("a", "< \u3000x>", " b"));
  AddedToken right = token("x");
  right.rstrip = true;
  EXPECT_THAT(split({right}, "a x\t b"), ElementsAre("a ", "<x\t >", "b"));
}

TEST(AddedTokens, WhiteSpaceBetweenTwoTokensGoesToTheFirst) {
  AddedToken both = token("x");
  both.lstrip = true;
  both.rstrip = true;
  EXPECT_THAT(split({both}, "x  x"), ElementsAre("<x  >", "<x>"));
}

TEST(AddedTokens, AMatchInsideWhiteSpaceAlreadyTakenIsDropped) {
  AddedToken right = token("x");
  right.rstrip = true;
  AddedToken blanks = token("  ");
  blanks.lstrip = true;
  EXPECT_THAT(split({right, blanks}, "x     y"), ElementsAre("<x     >", "y"));
}

TEST(AddedTokens, SpecialOnesCanBeLeftInTheText) {
  AddedToken special = token("[X]");
  special.special = true;
  EXPECT_THAT(split({special, token("y")}, "[X]y", false), ElementsAre("[X]", "<y>"));
}

TEST(AddedTokens, OnlyThoseOfTheRightKindAreSearched) {
  AddedToken normalized = token("x");
  normalized.normalized = true;
  EXPECT_THAT(split({normalized}, "x"), ElementsAre("x"));
}

TEST(AddedTokens, ContentsOfTheNormalizedKindAreNormalised) {
  AddedToken accented = token("CAF\u00c9");
  accented.normalized = true;
  const std::vector<AddedToken> tokens = {accented};
  const AlignedText text = decode_utf8("a cafe", "test");
  const AddedTokenFinder finder(tokens, {}, true);
  const auto parts = finder.split(text, true);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(to_string(parts[1].text), "cafe");
  EXPECT_NE(parts[1].added, nullptr);
}

TEST(AddedTokens, AContentThatNormalisesToNothingIsNeverFound) {
  AddedToken empty = token("\u00ad");
  empty.normalized = true;
  const std::vector<AddedToken> tokens = {empty};
  const AlignedText text = decode_utf8("a\u00adb", "test");
  EXPECT_EQ(AddedTokenFinder(tokens, {}, true).split(text, true).size(), 1u);
}

TEST(AddedTokens, AContentThatIsNotUtf8IsAnError) {
  const std::vector<AddedToken> tokens = {token("\xff")};
  EXPECT_THROW(AddedTokenFinder(tokens, {}, false), std::invalid_argument);
}

}  // namespace
}  // namespace qkv::testing
