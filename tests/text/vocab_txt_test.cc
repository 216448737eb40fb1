#include "qkv/text/vocab_txt.h"

#include <gmock/gmock.h>

#include "qkv/core/error.h"
#include "tests/io/file_support.h"
#include "tests/text/text_support.h"

namespace qkv::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class VocabTxtTest : public ::testing::Test {
 protected:
  TokenizerParts read(const std::string& vocab, const std::string& config = "") {
    if (!config.empty()) folder_.write("tokenizer_config.json", config);
    return read_vocab_txt(folder_.write("vocab.txt", vocab), folder_.file("tokenizer_config.json"));
  }
  std::string error(const std::string& vocab, const std::string& config = "") {
    return error_of<FormatError>([&] { read(vocab, config); }).what();
  }

  TempFolder folder_;
};

const std::string kVocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n\u00e9\ne\n";

TEST_F(VocabTxtTest, TheNumberOfALineIsTheId) {
  const Tokenizer tokenizer(read(kVocab));
  EXPECT_EQ(tokenizer.vocab_size(), 8);
  EXPECT_EQ(tokenizer.id_of("[PAD]"), 0);
  EXPECT_EQ(tokenizer.id_of("e"), 7);
}

TEST_F(VocabTxtTest, WithoutAConfigTheTokeniserIsUncasedBert) {
  const Tokenizer tokenizer(read(kVocab));
  const Encoding encoding = tokenizer.encode("A \u00c9 [MASK] x");
  EXPECT_THAT(encoding.ids, ElementsAre(2, 5, 7, 4, 1, 3));
  EXPECT_THAT(encoding.is_special, ElementsAre(true, false, false, true, false, true));
}

TEST_F(VocabTxtTest, TheConfigSetsTheSwitches) {
  const TokenizerParts parts =
      read(kVocab, R"({"do_lower_case": false, "strip_accents": true, "tokenize_chinese_chars": false})");
  EXPECT_FALSE(parts.normalizer.lowercase);
  EXPECT_EQ(parts.normalizer.strip_accents, true);
  EXPECT_FALSE(parts.normalizer.handle_chinese_chars);
  EXPECT_TRUE(parts.normalizer.clean_text);
}

TEST_F(VocabTxtTest, StripAccentsNullIsAbsent) {
  EXPECT_EQ(read(kVocab, R"({"strip_accents": null})").normalizer.strip_accents, std::nullopt);
}

TEST_F(VocabTxtTest, TheConfigNamesTheSpecialTokens) {
  const std::string config =
      R"({"cls_token": "<s>", "sep_token": {"content": "</s>", "lstrip": true}, "unk_token": "?"})";
  const Tokenizer tokenizer(read("?\n<s>\n</s>\na\n", config));
  EXPECT_THAT(tokenizer.encode("a </s>b").tokens, ElementsAre("<s>", "a", " </s>", "?", "</s>"));
}

TEST_F(VocabTxtTest, ListedAddedTokensAreFoundInTheText) {
  const std::string config = R"({"added_tokens_decoder": {"5": {"content": "a", "special": false}}})";
  const Tokenizer tokenizer(read(kVocab, config));
  EXPECT_THAT(tokenizer.encode("xax").tokens, ElementsAre("[CLS]", "[UNK]", "a", "[UNK]", "[SEP]"));
}

TEST_F(VocabTxtTest, AListedAddedTokenBeyondTheVocabularyIsAnError) {
  EXPECT_THAT(error(kVocab, R"({"added_tokens_decoder": {"8": {"content": "new"}}})"), HasSubstr("\"new\""));
  EXPECT_THAT(error(kVocab, R"({"added_tokens_decoder": {"6": {"content": "a"}}})"), HasSubstr("\"6\""));
}

TEST_F(VocabTxtTest, CarriageReturnsAndAMissingLastLineEndDoNotMatter) {
  const Tokenizer tokenizer(read("[UNK]\r\n[CLS]\r\n[SEP]\r\na"));
  EXPECT_EQ(tokenizer.vocab_size(), 4);
  EXPECT_EQ(tokenizer.id_of("[SEP]"), 2);
  EXPECT_EQ(tokenizer.id_of("a"), 3);
}

TEST_F(VocabTxtTest, EmptyLinesTakeAnId) {
  const Tokenizer tokenizer(read("[UNK]\n\n[CLS]\n[SEP]\n\na\n"));
  EXPECT_EQ(tokenizer.vocab_size(), 6);
  EXPECT_EQ(tokenizer.id_of("a"), 5);
  EXPECT_EQ(tokenizer.token_of(1), "");
}

TEST_F(VocabTxtTest, BlanksArePartOfAToken) {
  const Tokenizer tokenizer(read("[UNK]\n[CLS]\n[SEP]\na \n\u3000\na\n"));
  EXPECT_EQ(tokenizer.id_of("a "), 3);
  EXPECT_EQ(tokenizer.id_of("\u3000"), 4);
  EXPECT_EQ(tokenizer.id_of("a"), 5);
}

TEST_F(VocabTxtTest, ATokenTwiceIsAnErrorThatNamesBothLines) {
  EXPECT_THAT(error("[UNK]\n[CLS]\n[SEP]\na\nb\na\n"),
              AllOf(HasSubstr("line 6"), HasSubstr("line 4"), HasSubstr("\"a\"")));
}

TEST_F(VocabTxtTest, MissingSpecialTokensAreNamed) {
  EXPECT_THAT(error("[CLS]\n[SEP]\n"), HasSubstr("unk_token: got no \"[UNK]\" in 2 lines"));
  EXPECT_THAT(error("[UNK]\n[SEP]\n"), HasSubstr("cls_token: got no \"[CLS]\""));
  EXPECT_THAT(error("[UNK]\n[CLS]\n"), HasSubstr("sep_token: got no \"[SEP]\""));
  EXPECT_THAT(error(""), HasSubstr("unk_token"));
  EXPECT_EQ(Tokenizer(read("[UNK]\n[CLS]\n[SEP]\n")).vocab_size(), 3) << "[PAD] and [MASK] may be missing";
}

TEST_F(VocabTxtTest, TextThatIsNotUtf8IsAnErrorAtItsByte) {
  const auto error = error_of<FormatError>([&] { read("[UNK]\n\xff\n"); });
  EXPECT_EQ(error.byte_offset(), 6u);
}

TEST_F(VocabTxtTest, AnotherKindOfTokeniserIsAnError) {
  EXPECT_THAT(error(kVocab, R"({"tokenizer_class": "BertJapaneseTokenizer"})"), HasSubstr("BertJapaneseTokenizer"));
  EXPECT_THAT(error(kVocab, R"({"do_basic_tokenize": false})"), HasSubstr("do_basic_tokenize"));
  read(kVocab, R"({"tokenizer_class": "BertTokenizer", "do_basic_tokenize": true})");
}

TEST_F(VocabTxtTest, ABrokenConfigIsAnError) {
  EXPECT_THAT(error(kVocab, "{"), HasSubstr("tokenizer_config.json"));
  EXPECT_THAT(error(kVocab, R"({"do_lower_case": "yes"})"), HasSubstr("do_lower_case"));
}

}  // namespace
}  // namespace qkv::testing
