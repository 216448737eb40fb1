#include "qkv/text/tokenizer.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "qkv/core/error.h"
#include "tests/io/file_support.h"
#include "tests/text/text_support.h"

namespace qkv::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;
using std::string_literals::operator""s;

std::vector<std::string> tokens(const TokenizerParts& parts, const std::string& text, bool parse_special = true) {
  return Tokenizer(parts).encode(text, {.parse_special = parse_special}).tokens;
}

TEST(Tokenizer, AnEmptyTextGivesTheSpecialTokensAlone) {
  const Encoding encoding = Tokenizer(bert_parts({"a"})).encode("");
  EXPECT_THAT(encoding.ids, ElementsAre(1, 2));
  EXPECT_THAT(encoding.tokens, ElementsAre("[CLS]", "[SEP]"));
  EXPECT_THAT(encoding.offsets, ElementsAre(ByteRange{0, 0}, ByteRange{0, 0}));
  EXPECT_THAT(encoding.is_special, ElementsAre(true, true));
  EXPECT_THAT(encoding.word_indices, ElementsAre(std::nullopt, std::nullopt));
}

TEST(Tokenizer, AllVectorsTellOfTheSameTokens) {
  const Encoding encoding = Tokenizer(bert_parts({"the", "cat", "##s", "'"})).encode("The cats'");
  EXPECT_THAT(encoding.ids, ElementsAre(1, 5, 6, 7, 8, 2));
  EXPECT_THAT(encoding.tokens, ElementsAre("[CLS]", "the", "cat", "##s", "'", "[SEP]"));
  EXPECT_THAT(encoding.offsets, ElementsAre(ByteRange{0, 0}, ByteRange{0, 3}, ByteRange{4, 7}, ByteRange{7, 8},
                                            ByteRange{8, 9}, ByteRange{0, 0}));
  EXPECT_THAT(encoding.is_special, ElementsAre(true, false, false, false, false, true));
  EXPECT_THAT(encoding.word_indices, ElementsAre(std::nullopt, 0, 1, 1, 2, std::nullopt));
  EXPECT_EQ(encoding.size(), 6);
}

TEST(Tokenizer, OffsetsCountBytesOfTheInputThroughNormalisation) {
  const Encoding encoding = Tokenizer(bare_parts({"\u4e2d", "cafe", "##s"})).encode("\u4e2d  CAFE\u0301S");
  EXPECT_THAT(encoding.tokens, ElementsAre("\u4e2d", "cafe", "##s"));
  EXPECT_THAT(encoding.offsets, ElementsAre(ByteRange{0, 3}, ByteRange{5, 9}, ByteRange{11, 12}));
}

TEST(Tokenizer, AnAccentInsideAPieceBelongsToIt) {
  const Encoding encoding = Tokenizer(bare_parts({"cafes"})).encode("CAFE\u0301S");
  EXPECT_THAT(encoding.offsets, ElementsAre(ByteRange{0, 7}));
}

// https://github.com/huggingface/transformers/issues/2917
TEST(Tokenizer, AccentsFollowLowercaseUnlessTheOptionIsGiven) {
  TokenizerParts parts = bare_parts({"na", "##i", "##\u00ef", "##ve"});
  const std::string text = "na\u00efve";
  EXPECT_THAT(tokens(parts, text), ElementsAre("na", "##i", "##ve"));
  parts.normalizer.lowercase = false;
  EXPECT_THAT(tokens(parts, text), ElementsAre("na", "##\u00ef", "##ve"));
  parts.normalizer.strip_accents = true;
  EXPECT_THAT(tokens(parts, text), ElementsAre("na", "##i", "##ve"));
  EXPECT_THAT(tokens(parts, "nai\u0308ve"), ElementsAre("na", "##i", "##ve"));
  parts.normalizer = {.strip_accents = false, .lowercase = true};
  EXPECT_THAT(tokens(parts, text), ElementsAre("na", "##\u00ef", "##ve"));
  EXPECT_THAT(tokens(parts, "nai\u0308ve"), ElementsAre("[UNK]"));  // no piece is "##\u0308ve": nothing composes
}

// https://github.com/ggml-org/llama.cpp/issues/5496
TEST(Tokenizer, UnknownWordsAreOneTokenOverAllTheirBytes) {
  const Encoding encoding = Tokenizer(bare_parts({"un", "##aff", "b"})).encode("unaffx b");
  EXPECT_THAT(encoding.tokens, ElementsAre("[UNK]", "b"));
  EXPECT_THAT(encoding.offsets, ElementsAre(ByteRange{0, 6}, ByteRange{7, 8}));
  EXPECT_THAT(encoding.is_special, ElementsAre(false, false)) << "an unknown word is a word";
}

TEST(Tokenizer, ATooLongWordIsUnknown) {
  TokenizerParts parts = bare_parts({"a", "##a"});
  EXPECT_EQ(tokens(parts, std::string(100, 'a')).size(), 100u);
  EXPECT_THAT(tokens(parts, std::string(101, 'a')), ElementsAre("[UNK]"));
}

// https://github.com/huggingface/tokenizers/issues/160
TEST(Tokenizer, ASpecialTokenTypedInTheTextIsThatToken) {
  const TokenizerParts parts = bare_parts({"a", "b", "[", "]", "mask"});
  const Encoding encoding = Tokenizer(parts).encode("a [MASK] b");
  EXPECT_THAT(encoding.ids, ElementsAre(5, 3, 6));
  EXPECT_THAT(encoding.is_special, ElementsAre(false, true, false));
  EXPECT_THAT(encoding.offsets[1], (ByteRange{2, 8}));
  EXPECT_THAT(encoding.word_indices, ElementsAre(0, 1, 2));
  EXPECT_THAT(Tokenizer(parts).encode("a[SEP]b").ids, ElementsAre(5, 2, 6));
  EXPECT_THAT(tokens(parts, "[mask]"), ElementsAre("[", "mask", "]"));
}

// https://github.com/huggingface/tokenizers/issues/160
TEST(Tokenizer, WithParsingOffNoTextGivesASpecialToken) {
  const TokenizerParts parts = bare_parts({"a", "b", "[", "]", "mask", "sep"});
  EXPECT_THAT(tokens(parts, "a [MASK] b", false), ElementsAre("a", "[", "mask", "]", "b"));
  EXPECT_THAT(tokens(parts, "a[SEP]b", false), ElementsAre("a", "[", "sep", "]", "b"));
}

TEST(Tokenizer, AnAddedTokenBehindTheVocabularyIsNoPieceOfWords) {
  TokenizerParts parts = bare_parts({"a", "##b"});
  AddedToken added;
  added.id = static_cast<std::int32_t>(parts.vocab.size());
  added.content = "ab";
  parts.extra_tokens.append(added.content);
  parts.added_tokens.push_back(added);
  EXPECT_THAT(Tokenizer(parts).encode("ab").ids, ElementsAre(7));
  EXPECT_THAT(Tokenizer(parts).encode("AB").ids, ElementsAre(5, 6));
}

TEST(Tokenizer, AnAddedTokenOfTheNormalizedKindIsFoundInAnyCase) {
  TokenizerParts parts = bare_parts({"ok", "x"});
  AddedToken added;
  added.id = 5;
  added.content = "OK";
  added.normalized = true;
  parts.vocab = small_vocab({"OK", "x"});
  parts.added_tokens.push_back(added);
  const Encoding encoding = Tokenizer(parts).encode("x Ok");
  EXPECT_THAT(encoding.ids, ElementsAre(6, 5));
  EXPECT_THAT(encoding.tokens, ElementsAre("x", "ok"));
  EXPECT_THAT(encoding.offsets[1], (ByteRange{2, 4}));
}

TEST(Tokenizer, ControlCharactersAndNulDisappear) {
  EXPECT_THAT(tokens(bare_parts({"ab"}), "a\0\u00adb"s), ElementsAre("ab"));
  EXPECT_TRUE(Tokenizer(bare_parts({"ab"})).encode("\0\u200b\ufffd"s).ids.empty());
}

TEST(Tokenizer, InvalidUtf8IsAnError) {
  const Tokenizer tokenizer(bert_parts({"a"}));
  const auto error = error_of<std::invalid_argument>([&] { tokenizer.encode("ab\xf0\x9f"); });
  EXPECT_STREQ(error.what(), "encode: text: got byte 0xF0 at offset 2, expected valid UTF-8");
}

TEST(Tokenizer, IdsAndTokensOfBothVocabulariesAreFound) {
  TokenizerParts parts = bare_parts({"a"});
  parts.extra_tokens.append("<x>");
  const Tokenizer tokenizer(parts);
  EXPECT_EQ(tokenizer.vocab_size(), 7);
  EXPECT_EQ(tokenizer.id_of("a"), 5);
  EXPECT_EQ(tokenizer.id_of("<x>"), 6);
  EXPECT_EQ(tokenizer.id_of("y"), std::nullopt);
  EXPECT_EQ(tokenizer.token_of(5), "a");
  EXPECT_EQ(tokenizer.token_of(6), "<x>");
  EXPECT_THROW(tokenizer.token_of(7), std::out_of_range);
  EXPECT_THROW(tokenizer.token_of(-1), std::out_of_range);
}

TEST(Tokenizer, PartsThatContradictEachOtherAreErrors) {
  TokenizerParts parts = bert_parts({"a"});
  parts.after = {6};
  EXPECT_THROW(Tokenizer{parts}, std::invalid_argument);
  parts = bert_parts({"a"});
  parts.word_piece.unk_id = -1;
  EXPECT_THROW(Tokenizer{parts}, std::invalid_argument);
  parts = bert_parts({"a"});
  parts.added_tokens[3].id = 5;
  EXPECT_THROW(Tokenizer{parts}, std::invalid_argument);
}

TEST(Tokenizer, LoadPrefersTokenizerJsonAndElseReadsVocabTxt) {
  const TempFolder folder;
  folder.write("vocab.txt", "[UNK]\n[CLS]\n[SEP]\na\n");
  EXPECT_EQ(Tokenizer::load(folder.file("")).vocab_size(), 4);
  folder.write("tokenizer.json", "{");
  EXPECT_THROW(Tokenizer::load(folder.file("")), FormatError);
}

// As in a cache of which half was deleted: vocab.txt may say something else.
TEST(Tokenizer, ALinkToNothingIsNoMissingFile) {
  const TempFolder folder;
  folder.write("vocab.txt", "[UNK]\n[CLS]\n[SEP]\na\n");
  std::filesystem::create_symlink("gone", folder.file("tokenizer.json"));
  EXPECT_THROW(Tokenizer::load(folder.file("")), IoError);
}

TEST(Tokenizer, AFolderWithoutEitherFileNamesBoth) {
  const TempFolder folder;
  const auto error = error_of<IoError>([&] { Tokenizer::load(folder.file("")); });
  EXPECT_THAT(error.what(), ::testing::HasSubstr("tokenizer.json or vocab.txt"));
}

}  // namespace
}  // namespace qkv::testing
