#include "qkv/text/json_document.h"

#include <gmock/gmock.h>

#include "qkv/core/error.h"
#include "tests/io/file_support.h"

namespace qkv::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class JsonDocumentTest : public ::testing::Test {
 protected:
  JsonDocument read(const std::string& text) { return read_json_object(folder_.write("x.json", text)); }
  FormatError error(const std::string& text) {
    return error_of<FormatError>([&] { read(text); });
  }

  TempFolder folder_;
};

TEST_F(JsonDocumentTest, ValuesAreReadByKind) {
  const JsonDocument document =
      read(R"({"s": "a", "b": true, "n": 7, "list": [1, 2], "object": {"x": 1}, "null": null})");
  const JsonNode root = root_of(document);
  EXPECT_EQ(get_string(get_child(root, "s")), "a");
  EXPECT_TRUE(get_bool(get_child(root, "b")));
  EXPECT_EQ(get_index(get_child(root, "n"), 7), 7);
  EXPECT_EQ(get_elements(get_child(root, "list")).size(), 2u);
  EXPECT_THAT(get_keys(get_child(root, "object")), ElementsAre("x"));
  EXPECT_FALSE(find_child(root, "null"));
  EXPECT_FALSE(find_child(root, "absent"));
  EXPECT_TRUE(get_bool_or(root, "absent", true));
}

TEST_F(JsonDocumentTest, AValueOfAnotherKindIsAnErrorWithNameAndPlace) {
  const JsonDocument document = read(R"({"a": {"b": [1, "x"]}})");
  const JsonNode element = get_elements(get_child(get_child(root_of(document), "a"), "b"))[1];
  const auto error = error_of<FormatError>([&] { get_bool(element); });
  EXPECT_THAT(error.what(), EndsWith("x.json: byte 4: a.b[1]: got \"x\", expected true or false"));
  EXPECT_THROW(get_index(element, 9), FormatError);
  EXPECT_THROW(get_keys(element), FormatError);
  EXPECT_THROW(get_elements(element), FormatError);
  EXPECT_THROW(find_child(element, "x"), FormatError);
  EXPECT_THROW(get_string(get_elements(get_child(get_child(root_of(document), "a"), "b"))[0]), FormatError);
}

TEST_F(JsonDocumentTest, ANumberIsWholeAndWithinItsLimits) {
  const JsonDocument document = read(R"({"minus": -1, "half": 0.5, "big": 99999999999999999999, "ten": 10})");
  for (const char* key : {"minus", "half", "big", "ten"}) {
    EXPECT_THROW(get_index(get_child(root_of(document), key), 9), FormatError) << key;
  }
}

TEST_F(JsonDocumentTest, AMissingValueIsAnError) {
  const JsonDocument document = read("{}");
  const auto error = error_of<FormatError>([&] { get_child(root_of(document), "model"); });
  EXPECT_THAT(error.what(), EndsWith("model: got nothing, expected a value"));
}

TEST_F(JsonDocumentTest, TheTopHasToBeAnObject) {
  for (const char* text : {"[]", "1", "\"a\"", "null", "[{}]"}) {
    EXPECT_THAT(error(text).what(), HasSubstr("expected an object")) << text;
  }
}

TEST_F(JsonDocumentTest, WhatIsNotJsonIsAnErrorAtItsPlace) {
  for (const char* text : {"", "{", "{\"a\": 1,}", "{} x", "nul", "{\"a\": 1e999}", "{\"a\": \"\xff\"}", "\x89PNG"}) {
    EXPECT_THAT(error(text).what(), HasSubstr("expected valid JSON")) << text;
  }
  EXPECT_EQ(error("{\"a\": x}").byte_offset(), 7u);
}

TEST_F(JsonDocumentTest, ANulByteDoesNotEndTheText) {
  EXPECT_THAT(error(std::string("{\"a\": 1}\0garbage", 16)).what(), HasSubstr("byte 8: syntax: got a NUL byte"));
}

TEST_F(JsonDocumentTest, AKeyTwiceInOneObjectIsAnError) {
  EXPECT_THAT(error(R"({"a": {"b": 1, "b": 2}})").what(), HasSubstr("byte 18: key \"b\": got it twice"));
  read(R"({"a": {"b": 1}, "b": {"b": 2}})");
}

TEST_F(JsonDocumentTest, NestingIsLimited) {
  const auto nested = [](int depth) { return "{\"a\":" + std::string(depth, '[') + std::string(depth, ']') + "}"; };
  read(nested(31));
  EXPECT_THAT(error(nested(32)).what(), HasSubstr("32 levels"));
  EXPECT_THAT(error("{\"a\":" + std::string(1'000'000, '[')).what(), HasSubstr("32 levels"));
}

TEST_F(JsonDocumentTest, AFileOfAHundredMegabytesIsRefused) {
  const std::string path = folder_.write("x.json", "{");
  std::filesystem::resize_file(path, 100'000'000);
  EXPECT_THAT(error_of<FormatError>([&] { read_json_object(path); }).what(), HasSubstr("expected at most 64 MiB"));
}

TEST_F(JsonDocumentTest, FilesThatCannotBeReadAreIoErrors) {
  EXPECT_EQ(error_of<IoError>([&] { read_text_file(folder_.file("absent")); }).code(),
            std::errc::no_such_file_or_directory);
  EXPECT_EQ(error_of<IoError>([&] { read_text_file(folder_.file("")); }).code(), std::errc::is_a_directory);
}

TEST_F(JsonDocumentTest, QuotesAreOneShortLineOfAscii) {
  EXPECT_EQ(quote("a\"\n\u00e9"), "\"a\\\"\\n\\u00e9\"");
  EXPECT_LT(quote(std::string(1000, 'x')).size(), 70u);
  EXPECT_EQ(quote("\xff"), "\"\\ufffd\"");
}

}  // namespace
}  // namespace qkv::testing
