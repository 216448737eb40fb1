#include "qkv/text/tokenizer_json.h"

#include <gmock/gmock.h>

#include "qkv/core/error.h"
#include "tests/io/file_support.h"
#include "tests/text/text_support.h"

namespace qkv::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A whole tokenizer.json, small enough to break at every byte.
const std::string kWhole = R"({
"version": "1.0",
"truncation": {"max_length": 2, "strategy": "LongestFirst", "stride": 0},
"padding": {"strategy": {"Fixed": 9}, "direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"},
"added_tokens": [
 {"id": 1, "special": true, "content": "[CLS]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false},
 {"id": 6, "special": false, "content": "<x>", "single_word": false, "lstrip": true, "rstrip": false, "normalized": false}],
"normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
"pre_tokenizer": {"type": "BertPreTokenizer"},
"post_processor": {"type": "TemplateProcessing",
 "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
 "pair": [],
 "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]}, "[SEP]": {"id": "[SEP]", "ids": [2], "tokens": ["[SEP]"]}}},
"decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
"model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
 "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "##b": 4, "\u00e9": 5}}
})";

class TokenizerJsonTest : public ::testing::Test {
 protected:
  static TokenizerParts read(const std::string& text) { return parse_tokenizer_json(text, "tokenizer.json"); }

  // kWhole with the first `from` replaced by `to`.
  static std::string changed(const std::string& from, const std::string& to) {
    std::string text = kWhole;
    const std::size_t place = text.find(from);
    if (place == std::string::npos) throw std::logic_error("no " + from + " in the file");
    return text.replace(place, from.size(), to);
  }
  static TokenizerParts read_changed(const std::string& from, const std::string& to) { return read(changed(from, to)); }
  static std::string error(const std::string& from, const std::string& to) {
    return error_of<FormatError>([&] { read_changed(from, to); }).what();
  }
};

TEST_F(TokenizerJsonTest, AWholeFileGivesAllParts) {
  const Tokenizer tokenizer(read(kWhole));
  EXPECT_EQ(tokenizer.vocab_size(), 7);
  const Encoding encoding = tokenizer.encode("AB <x>Q");
  EXPECT_THAT(encoding.ids, ElementsAre(1, 3, 4, 6, 0, 2));
  EXPECT_THAT(encoding.tokens, ElementsAre("[CLS]", "a", "##b", " <x>", "[UNK]", "[SEP]"));
  EXPECT_THAT(encoding.is_special, ElementsAre(true, false, false, false, false, true));
}

TEST_F(TokenizerJsonTest, PaddingAndTruncationAreNotApplied) {
  EXPECT_EQ(Tokenizer(read(kWhole)).encode("a a a a").size(), 6);
  EXPECT_EQ(Tokenizer(read(kWhole)).encode("").size(), 2);
}

TEST_F(TokenizerJsonTest, TheNormalizerIsReadOrAbsent) {
  const BertNormalizer cased =
      read_changed(R"("strip_accents": null, "lowercase": true)", R"("strip_accents": true, "lowercase": false)")
          .normalizer;
  EXPECT_EQ(cased.strip_accents, true);
  EXPECT_FALSE(cased.lowercase);
  const std::string none = R"("normalizer": null, "x": )";
  EXPECT_THAT(Tokenizer(read_changed(R"("normalizer": )", none)).encode("A\u00e9").tokens,
              ElementsAre("[CLS]", "[UNK]", "[SEP]"));
}

TEST_F(TokenizerJsonTest, BertProcessingIsReadToo) {
  const std::string bert =
      R"("post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]}, "x": )";
  EXPECT_THAT(Tokenizer(read_changed(R"("post_processor": )", bert)).encode("a").ids, ElementsAre(1, 3, 2));
}

TEST_F(TokenizerJsonTest, WithoutAPostProcessorNothingIsPutAround) {
  EXPECT_THAT(Tokenizer(read_changed(R"("post_processor": )", R"("post_processor": null, "x": )")).encode("a").ids,
              ElementsAre(3));
}

TEST_F(TokenizerJsonTest, AnOldFileWithoutModelTypeIsTakenForWordPiece) {
  const std::string old = R"("model": {"unk_token")";
  EXPECT_EQ(Tokenizer(read_changed(R"("model": {"type": "WordPiece", "unk_token")", old)).vocab_size(), 7);
  EXPECT_THAT(error(R"("model": {"type": "WordPiece",)", R"("model": {"merges": [],)"), HasSubstr("WordPiece"));
}

TEST_F(TokenizerJsonTest, UnsupportedTypesAreNamedWithWhatIsSupported) {
  const std::vector<std::vector<std::string>> cases = {
      {R"("model": {"type": "WordPiece")", R"("model": {"type": "Unigram")", "\"Unigram\"", "\"WordPiece\""},
      {"BertNormalizer", "Sequence", "\"Sequence\"", "\"BertNormalizer\""},
      {"BertPreTokenizer", "ByteLevel", "\"ByteLevel\"", "\"BertPreTokenizer\""},
      {"TemplateProcessing", "RobertaProcessing", "\"RobertaProcessing\"", "\"BertProcessing\""},
      {R"("decoder": {"type": "WordPiece")", R"("decoder": {"type": "Metaspace")", "\"Metaspace\"", "\"WordPiece\""},
  };
  for (const auto& each : cases) {
    const std::string message = error(each[0], each[1]);
    EXPECT_THAT(message, HasSubstr("type: got " + each[2]));
    EXPECT_THAT(message, HasSubstr(each[3]));
  }
}

TEST_F(TokenizerJsonTest, MissingPartsAreNamed) {
  for (const char* key : {"model", "pre_tokenizer"}) {
    EXPECT_THAT(error("\"" + std::string(key) + "\"", "\"other\""), HasSubstr(std::string(key) + ": got nothing"))
        << key;
  }
  for (const char* key : {"unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"}) {
    EXPECT_THAT(error("\"" + std::string(key) + "\"", "\"other\""), HasSubstr("model." + std::string(key))) << key;
  }
  for (const char* key : {"clean_text", "handle_chinese_chars", "lowercase"}) {
    EXPECT_THAT(error("\"" + std::string(key) + "\"", "\"other\""), HasSubstr("normalizer." + std::string(key))) << key;
  }
  for (const char* key : {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}) {
    EXPECT_THAT(error("\"" + std::string(key) + "\"", "\"other\""), HasSubstr("added_tokens[0]." + std::string(key)))
        << key;
  }
}

TEST_F(TokenizerJsonTest, WrongKindsAreNamed) {
  EXPECT_THAT(error(R"("clean_text": true)", R"("clean_text": 1)"), HasSubstr("normalizer.clean_text: got 1"));
  EXPECT_THAT(error(R"("vocab": {)", R"("vocab": 3, "x": {)"), HasSubstr("model.vocab: got 3"));
  EXPECT_THAT(error(R"("added_tokens": [)", R"("added_tokens": {}, "x": [)"), HasSubstr("added_tokens: got an object"));
  EXPECT_THAT(error(R"("max_input_chars_per_word": 100)", R"("max_input_chars_per_word": -1)"), HasSubstr("got -1"));
  EXPECT_THAT(error(R"("a": 3)", R"("a": "3")"), HasSubstr("model.vocab.a: got \"3\""));
  EXPECT_THAT(error(R"("a": 3)", R"("a": 3.5)"), HasSubstr("got 3.5, expected a whole number"));
}

TEST_F(TokenizerJsonTest, IdsTwiceAndHolesAreErrors) {
  EXPECT_THAT(error(R"("a": 3)", R"("a": 4)"), HasSubstr("got id 4, expected the ids 0 to 5, each once"));
  EXPECT_THAT(error(R"("a": 3)", R"("a": 17)"), HasSubstr("got id 17, expected the ids 0 to 5, each once"));
}

TEST_F(TokenizerJsonTest, ATokenTwiceIsAnError) {
  EXPECT_THAT(error("\"##b\": 4", "\"a\": 4"), HasSubstr("twice"));
}

TEST_F(TokenizerJsonTest, AMissingUnknownTokenIsAnError) {
  EXPECT_THAT(error(R"("[UNK]": 0)", R"("[X]": 0)"),
              HasSubstr("model.unk_token: got \"[UNK]\", expected a token of the vocabulary"));
}

TEST_F(TokenizerJsonTest, AddedTokensHaveTheIdOfTheVocabularyOrTheNextOne) {
  EXPECT_THAT(error(R"({"id": 1, "special")", R"({"id": 2, "special")"), HasSubstr("expected 1, as in the vocabulary"));
  EXPECT_THAT(error(R"({"id": 6, "special")", R"({"id": 9, "special")"), HasSubstr("expected 6, the next free id"));
  EXPECT_THAT(error(R"("content": "[CLS]")", R"("content": "")"), HasSubstr("an empty content"));
  EXPECT_THAT(
      error(R"({"id": 6, "special": false, "content": "<x>")", R"({"id": 1, "special": false, "content": "[CLS]")"),
      HasSubstr("each added token once"));
}

TEST_F(TokenizerJsonTest, TemplatesThatMeanSomethingElseAreErrors) {
  EXPECT_THAT(error(R"("id": "A", "type_id": 0)", R"("id": "B", "type_id": 0)"), HasSubstr("sequence \"A\" once"));
  EXPECT_THAT(error(R"("id": "A", "type_id": 0)", R"("id": "A", "type_id": 1)"), HasSubstr("type_id"));
  EXPECT_THAT(error(R"({"Sequence": {"id": "A", "type_id": 0}}, )", ""), HasSubstr("no sequence"));
  EXPECT_THAT(error(R"("ids": [1])", R"("ids": [5])"), HasSubstr("id 5 for \"[CLS]\", expected 1"));
  EXPECT_THAT(error(R"("ids": [1])", R"("ids": [])"), HasSubstr("as many ids as tokens"));
  EXPECT_THAT(error(R"("special_tokens": {"[CLS]")", R"("special_tokens": {"[X]")"),
              HasSubstr("no entry for \"[CLS]\""));
}

TEST_F(TokenizerJsonTest, AFileThatIsNotThereIsAnIoError) {
  const TempFolder folder;
  EXPECT_THROW(read_tokenizer_json(folder.file("absent.json")), IoError);
}

TEST_F(TokenizerJsonTest, ErrorsOfAFileNameItsPathAndByte) {
  const TempFolder folder;
  const std::string path = folder.write("tokenizer.json", changed("BertPreTokenizer", "X"));
  const auto error = error_of<FormatError>([&] { read_tokenizer_json(path); });
  EXPECT_EQ(error.path(), path);
  EXPECT_EQ(error.byte_offset(), kWhole.find("BertPreTokenizer") - std::string(": \"").size());
}

// Reading has to end in a tokeniser that works or in a FormatError.
void read_or_refuse(const std::string& text) {
  try {
    Tokenizer(parse_tokenizer_json(text, "tokenizer.json")).encode("Ab\u00c9 <x>[CLS]\u4e2d");
  } catch (const FormatError&) {
  }
}

TEST_F(TokenizerJsonTest, EveryTruncationIsRefused) {
  for (std::size_t size = 0; size < kWhole.size(); ++size) {
    EXPECT_THROW(read(kWhole.substr(0, size)), FormatError) << size;
  }
}

TEST_F(TokenizerJsonTest, NoChangedByteDoesHarm) {
  for (std::size_t place = 0; place < kWhole.size(); ++place) {
    for (const char byte : {'\0', '"', '}', ']', '9', 'x', '\\', '\xff', static_cast<char>(kWhole[place] ^ 1)}) {
      std::string text = kWhole;
      text[place] = byte;
      read_or_refuse(text);
    }
  }
}

TEST_F(TokenizerJsonTest, NoRemovedOrRepeatedPieceDoesHarm) {
  for (std::size_t place = 0; place < kWhole.size(); place += 3) {
    for (const std::size_t length : {1, 7, 40}) {
      std::string removed = kWhole;
      read_or_refuse(removed.erase(place, length));
      std::string repeated = kWhole;
      read_or_refuse(repeated.insert(place, kWhole.substr(place, length)));
    }
  }
}

}  // namespace
}  // namespace qkv::testing
