#include "qkv/text/basic_tokenizer.h"

#include <gmock/gmock.h>

#include "tests/text/text_support.h"

namespace qkv::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using std::string_literals::operator""s;

constexpr BertNormalizer kNothing = {
    .clean_text = false, .handle_chinese_chars = false, .strip_accents = false, .lowercase = false};

std::string normalized(const BertNormalizer& normalizer, const std::string& text) {
  return to_string(normalize(normalizer, decode_utf8(text, "test")));
}

std::vector<std::string> words(const std::string& text) {
  const AlignedText characters = decode_utf8(text, "test");
  std::vector<std::string> result;
  for (const auto& word : split_words(characters)) result.push_back(to_string(word));
  return result;
}

TEST(BertNormalizer, WithEverythingOffTheTextStays) {
  EXPECT_EQ(normalized(kNothing, "A\u00c9\t\u4e2d\u00ad\0x"s), "A\u00c9\t\u4e2d\u00ad\0x"s);
}

TEST(BertNormalizer, CleaningRemovesControlCharactersAndTheReplacementCharacter) {
  BertNormalizer clean = kNothing;
  clean.clean_text = true;
  EXPECT_EQ(normalized(clean,
                       "a\0b\x1f"
                       "c\u00add\u200be\ufffdf\ufeff"s),
            "abcdef");
}

TEST(BertNormalizer, CleaningMakesEveryWhiteSpaceABlank) {
  BertNormalizer clean = kNothing;
  clean.clean_text = true;
  EXPECT_EQ(normalized(clean, "a\tb\nc\rd\u00a0e\u2028f\u3000g"), "a b c d e f g");
}

TEST(BertNormalizer, IdeographsGetBlanksThatComeFromTheSameBytes) {
  BertNormalizer cjk = kNothing;
  cjk.handle_chinese_chars = true;
  const AlignedText text = normalize(cjk, decode_utf8("a\u4e2d\u6587", "test"));
  EXPECT_EQ(to_string(text), "a \u4e2d  \u6587 ");
  EXPECT_THAT(sources(text), ElementsAre(ByteRange{0, 1}, ByteRange{1, 4}, ByteRange{1, 4}, ByteRange{1, 4},
                                         ByteRange{4, 7}, ByteRange{4, 7}, ByteRange{4, 7}));
}

TEST(BertNormalizer, KanaAndHangulGetNoBlanks) {
  BertNormalizer cjk = kNothing;
  cjk.handle_chinese_chars = true;
  EXPECT_EQ(normalized(cjk, "\u3042\u30a2\uac00"), "\u3042\u30a2\uac00");
}

// https://github.com/huggingface/transformers/issues/2917
TEST(BertNormalizer, StripAccentsAbsentFollowsLowercase) {
  BertNormalizer normalizer = kNothing;
  normalizer.strip_accents = std::nullopt;
  EXPECT_EQ(normalized(normalizer, "Na\u00efve"), "Na\u00efve");
  normalizer.lowercase = true;
  EXPECT_EQ(normalized(normalizer, "Na\u00efve"), "naive");
}

// https://github.com/huggingface/transformers/issues/2917
TEST(BertNormalizer, StripAccentsGivenWins) {
  BertNormalizer cased = kNothing;
  cased.strip_accents = true;
  EXPECT_EQ(normalized(cased, "Na\u00efve"), "Naive");
  BertNormalizer uncased = kNothing;
  uncased.lowercase = true;
  uncased.strip_accents = false;
  EXPECT_EQ(normalized(uncased, "NA\u00cfVE"), "na\u00efve");
}

// https://github.com/huggingface/transformers/issues/2917
TEST(BertNormalizer, DecomposedAccentsAreStrippedOrKeptAsTheyAre) {
  BertNormalizer normalizer = kNothing;
  EXPECT_EQ(normalized(normalizer, "nai\u0308ve"), "nai\u0308ve");
  normalizer.strip_accents = true;
  EXPECT_EQ(normalized(normalizer, "nai\u0308ve"), "naive");
}

TEST(BertNormalizer, AStrippedAccentLeavesTheOtherCharactersTheirBytes) {
  const AlignedText text = normalize({}, decode_utf8("\u00c9e\u0301x", "test"));
  EXPECT_EQ(to_string(text), "eex");
  EXPECT_THAT(sources(text), ElementsAre(ByteRange{0, 2}, ByteRange{2, 3}, ByteRange{5, 6}));
}

TEST(BertNormalizer, StrippingDecomposesWhatHasNoAccentToo) {
  BertNormalizer strip = kNothing;
  strip.strip_accents = true;
  const AlignedText text = normalize(strip, decode_utf8("\uac01", "test"));
  EXPECT_EQ(to_string(text), "\u1100\u1161\u11a8");
  EXPECT_THAT(sources(text), ElementsAre(ByteRange{0, 3}, ByteRange{0, 3}, ByteRange{0, 3}));
}

TEST(BertNormalizer, MarksAreSortedByClassAndSourcesGivenOutByPlace) {
  BertNormalizer strip = kNothing;
  strip.strip_accents = true;
  // U+0301 (class 230) goes as Mn; the two Mc, U+302E (224) and U+1D165 (216), change places but not bytes.
  const AlignedText text = normalize(strip, decode_utf8("a\u302e\U0001d165\u0301", "test"));
  EXPECT_EQ(to_string(text), "a\U0001d165\u302e");
  EXPECT_THAT(sources(text), ElementsAre(ByteRange{0, 1}, ByteRange{1, 4}, ByteRange{4, 8}));
}

TEST(BertNormalizer, LowerCaseThatGrowsKeepsTheBytesOfItsCapital) {
  BertNormalizer lower = kNothing;
  lower.lowercase = true;
  const AlignedText text = normalize(lower, decode_utf8("x\u0130y", "test"));
  EXPECT_EQ(to_string(text), "xi\u0307y");
  EXPECT_THAT(sources(text), ElementsAre(ByteRange{0, 1}, ByteRange{1, 3}, ByteRange{1, 3}, ByteRange{3, 4}));
}

TEST(BertNormalizer, LowerCaseKnowsNoFinalSigma) {
  BertNormalizer lower = kNothing;
  lower.lowercase = true;
  EXPECT_EQ(normalized(lower, "\u039f\u03a3"), "\u03bf\u03c3");
}

TEST(BertNormalizer, AnEmptyTextStaysEmpty) {
  EXPECT_EQ(normalized({}, ""), "");
}

TEST(SplitWords, WhiteSpaceSeparatesAndIsDropped) {
  EXPECT_THAT(words("  ab\t\ncd\u3000ef "), ElementsAre("ab", "cd", "ef"));
}

TEST(SplitWords, EveryPunctuationMarkIsAWord) {
  EXPECT_THAT(words("didn't... (x)$\u2014y"),
              ElementsAre("didn", "'", "t", ".", ".", ".", "(", "x", ")", "$", "\u2014", "y"));
}

TEST(SplitWords, NothingButWhiteSpaceHasNoWords) {
  EXPECT_THAT(words(""), IsEmpty());
  EXPECT_THAT(words(" \u00a0\n"), IsEmpty());
}

}  // namespace
}  // namespace qkv::testing
