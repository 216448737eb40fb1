#include "qkv/text/json_file.h"

#include <gmock/gmock.h>

#include "qkv/core/error.h"
#include "tests/io/file_support.h"

namespace qkv::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

JsonFile parse(const std::string& text) {
  return parse_json(text, "x.json");
}

FormatError refusal(const std::string& text) {
  return error_of<FormatError>([&] { parse(text); });
}

template <class Get>
std::string refusal_of(Get get) {
  return error_of<FormatError>(get).what();
}

// ---- what is no JSON, or too much of it

TEST(JsonFile, IsRefusedWithTheByteUnlessItIsJson) {
  for (const char* text : {"", "{", "{\"a\": }", "{\"a\": 1,}", "{} x", "{} {}", "nul", "nonsense", "{\"a\": NaN}",
                           "{\"a\": 1e999}", "{\"a\": \"\xff\"}", "\x89PNG"}) {
    EXPECT_THAT(refusal(text).what(), AllOf(HasSubstr("x.json: byte "), HasSubstr("expected JSON in UTF-8"))) << text;
  }
  EXPECT_EQ(refusal("{\"a\": x}").byte_offset(), 7u);
}

TEST(JsonFile, IsNotEndedByANulByte) {
  EXPECT_THAT(refusal(std::string("{\"a\": 1}\0garbage", 16)).what(), HasSubstr("byte 8: syntax: got a NUL byte"));
  EXPECT_THAT(refusal(std::string(3, '\0')).what(), HasSubstr("expected JSON in UTF-8"));
}

TEST(JsonFile, MustNotHaveAKeyTwiceInOneObject) {
  EXPECT_THAT(refusal(R"({"a": 1, "a": 2})").what(), HasSubstr("byte 12: key \"a\": got it twice"));
  EXPECT_THAT(refusal(R"({"a": {"b": 1, "b": 2}})").what(), HasSubstr("byte 18: key \"b\": got it twice"));
  EXPECT_THAT(refusal(R"({"x": {"a": 1, "b": {"a": 1}, "a": 2}})").what(), HasSubstr("byte 33: key \"a\""));
  EXPECT_THAT(refusal(R"({"\n": 1, "\u000a": 2})").what(), HasSubstr("key \"\\n\""));
}

TEST(JsonFile, MayHaveAKeyInSeveralObjects) {
  EXPECT_EQ(parse(R"({"a": {"a": {"a": 1}}, "b": [{"a": 1}, {"a": 2}]})").root["b"][1]["a"], 2);
}

TEST(JsonFile, IsNestedAtMost32Deep) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW(parse(nested(32)));
  EXPECT_NO_THROW(parse("{\"a\":" + nested(31) + "}"));
  EXPECT_THAT(refusal(nested(33)).what(), HasSubstr("byte 33: nesting: got more than 32 levels"));
  EXPECT_THAT(refusal("{\"a\":" + nested(32) + "}").what(), HasSubstr("more than 32 levels"));
  EXPECT_THAT(refusal(std::string(1'000'000, '[')).what(), HasSubstr("more than 32 levels"));
  std::string objects;
  for (int n = 0; n < 100'000; ++n) objects += R"({"a":)";
  EXPECT_THAT(refusal(objects).what(), HasSubstr("more than 32 levels"));
}

TEST(JsonFile, OfTooManyBytesIsRefused) {
  const TempFolder folder;
  const std::string path = folder.write("x.json", "{}      ");
  EXPECT_NO_THROW(read_json_file(path, 8));
  EXPECT_THAT(refusal_of([&] { read_json_file(path, 7); }), HasSubstr("size: got 8 bytes, expected at most 7"));
  std::filesystem::resize_file(path, 100'000'000);
  EXPECT_THAT(refusal_of([&] { read_json_file(path); }),
              HasSubstr("size: got 100000000 bytes, expected at most 67108864"));
}

TEST(JsonFile, ThatCannotBeReadIsAnIoError) {
  const TempFolder folder;
  const auto absent = error_of<IoError>([&] { read_json_file(folder.file("absent")); });
  EXPECT_EQ(absent.code(), std::errc::no_such_file_or_directory);
  EXPECT_THAT(absent.what(), HasSubstr(folder.file("absent")));
  EXPECT_EQ(error_of<IoError>([&] { read_text_file(folder.file("")); }).code(), std::errc::is_a_directory);
}

TEST(ReadTextFile, ReadsAllBytesAndEmptyFiles) {
  const TempFolder folder;
  const std::string bytes("a\0\xff\r\n", 5);
  EXPECT_EQ(read_text_file(folder.write("x", bytes)), bytes);
  EXPECT_EQ(read_text_file(folder.write("empty", "")), "");
}

// ---- values

TEST(JsonNode, IsReadByKind) {
  const JsonFile file =
      parse(R"({"s": "a", "b": true, "n": 7, "x": 0.5, "list": [1, 2], "object": {"y": 1}, "null": null})");
  const JsonNode root = root_of(file);
  EXPECT_EQ(get_string(get_child(root, "s")), "a");
  EXPECT_TRUE(get_bool(get_child(root, "b")));
  EXPECT_EQ(get_index(get_child(root, "n"), 7, 7), 7);
  EXPECT_EQ(get_number(get_child(root, "x"), 0, 1), 0.5);
  EXPECT_EQ(get_number(get_child(root, "n"), 0, 10), 7);
  EXPECT_EQ(get_elements(get_child(root, "list")).size(), 2u);
  EXPECT_THAT(get_keys(get_child(root, "object")), ElementsAre("y"));
}

TEST(JsonNode, MayBeAbsentOrNullWhereThereIsAFallback) {
  const JsonFile file = parse(R"({"s": "a", "b": false, "null": null})");
  const JsonNode root = root_of(file);
  for (const char* key : {"null", "absent"}) {
    EXPECT_FALSE(find_child(root, key));
    EXPECT_TRUE(get_bool_or(root, key, true));
    EXPECT_EQ(get_string_or(root, key, "default"), "default");
  }
  EXPECT_FALSE(get_bool_or(root, "b", true));
  EXPECT_EQ(get_string_or(root, "s", "default"), "a");
}

TEST(JsonNode, OfAnotherKindIsAnErrorWithNameAndPlace) {
  const JsonFile file = parse(R"({"a": {"b": [1, "x"]}, "t": true, "big": 1e300})");
  const JsonNode root = root_of(file);
  const JsonNode element = get_elements(get_child(get_child(root, "a"), "b"))[1];
  EXPECT_THAT(refusal_of([&] { get_bool(element); }),
              EndsWith("x.json: byte 10: a.b[1]: got \"x\", expected true or false"));
  EXPECT_THAT(refusal_of([&] { get_keys(element); }), EndsWith("got \"x\", expected an object"));
  EXPECT_THAT(refusal_of([&] { find_child(element, "x"); }), EndsWith("got \"x\", expected an object"));
  EXPECT_THAT(refusal_of([&] { get_elements(element); }), EndsWith("got \"x\", expected an array"));
  EXPECT_THAT(refusal_of([&] { get_index(element, 0, 9); }), EndsWith("expected a whole number from 0 to 9"));
  EXPECT_THAT(refusal_of([&] { get_number(element, 0, 1); }), EndsWith("expected a number from 0.0 to 1.0"));
  EXPECT_THAT(refusal_of([&] { get_number(get_child(root, "big"), 0, 1); }), HasSubstr("big: got 1e+300"));
  EXPECT_THAT(refusal_of([&] { get_string(get_child(root, "a")); }), EndsWith("a: got an object, expected a string"));
  EXPECT_THAT(refusal_of([&] { get_string_or(root, "t", ""); }), EndsWith("t: got true, expected a string"));
  EXPECT_THAT(refusal_of([&] { get_bool_or(root, "a", true); }), EndsWith("a: got an object, expected true or false"));
}

TEST(JsonNode, OfTheTopHasAKindToo) {
  for (const char* text : {"[]", "1", "\"a\"", "null", "[{}]"}) {
    const JsonFile file = parse(text);
    EXPECT_THAT(refusal_of([&] { find_child(root_of(file), "a"); }),
                AllOf(HasSubstr("byte 0: top: got "), EndsWith("expected an object")))
        << text;
  }
}

TEST(JsonNode, ThatIsMissingIsAnError) {
  const JsonFile file = parse(R"({"model": {}})");
  EXPECT_THAT(refusal_of([&] { get_child(root_of(file), "type"); }),
              EndsWith("byte 0: type: got nothing, expected a value"));
  EXPECT_THAT(refusal_of([&] { get_child(get_child(root_of(file), "model"), "type"); }),
              EndsWith("byte 8: model.type: got nothing, expected a value"));
}

TEST(JsonNode, IsAWholeNumberOnlyWithinItsLimits) {
  for (const char* value : {"0", "-1", "101", "1e18", "9223372036854775807", "18446744073709551615",
                            "99999999999999999999999", "1.0", "0.5", "\"12\"", "true", "[1]", "{}"}) {
    const JsonFile file = parse(R"({"n": )" + std::string(value) + "}");
    EXPECT_THAT(refusal_of([&] { get_index(get_child(root_of(file), "n"), 1, 100); }),
                AllOf(HasSubstr("byte 4: n: got "), EndsWith("expected a whole number from 1 to 100")))
        << value;
  }
}

std::uint64_t byte_of(const JsonNode& node) {
  return error_of<FormatError>([&] { throw_bad_value(node, "it", "another"); }).byte_offset();
}

TEST(JsonNode, KnowsWhereItsKeyEnds) {
  const JsonFile file = parse(R"([{"a": 1}, {"b": {"c": 2}}, {"a": []}, {"": {"a": [3]}}])");
  const std::vector<JsonNode> elements = get_elements(root_of(file));
  EXPECT_EQ(byte_of(get_child(elements[0], "a")), 5u);
  EXPECT_EQ(byte_of(get_child(elements[1], "b")), 15u);
  EXPECT_EQ(byte_of(get_child(get_child(elements[1], "b"), "c")), 21u);
  EXPECT_EQ(byte_of(get_child(elements[2], "a")), 32u);
  EXPECT_EQ(byte_of(get_elements(get_child(get_child(elements[3], ""), "a"))[0]), 48u);
  EXPECT_EQ(byte_of(elements[1]), 0u) << "no key leads to it";
}

TEST(JsonNode, IsNamedInASCIIWhateverItsKeys) {
  const JsonFile file = parse(R"({"model": {"vocab": {"##s": 1, "": 2, "a\u001b\"": 3, "7": 4}}})");
  const JsonNode vocab = get_child(get_child(root_of(file), "model"), "vocab");
  const auto name = [&](const std::string& key) { return refusal_of([&] { get_bool(get_child(vocab, key)); }); };
  EXPECT_THAT(name("##s"), HasSubstr(": model.vocab[\"##s\"]: got 1"));
  EXPECT_THAT(name(""), HasSubstr(": model.vocab[\"\"]: got 2"));
  EXPECT_THAT(name("a\x1b\""), HasSubstr(R"(: model.vocab["a\x1b\""]: got 3)"));
  EXPECT_THAT(name("7"), HasSubstr(": model.vocab.7: got 4"));
}

TEST(JsonNode, IsShownOnOneShortLineOfAscii) {
  const JsonFile file = parse(R"(["a\"\n\u00e9", 7, -0.5, null, false, [], {}, ")" + std::string(1000, 'x') + "\"]");
  std::vector<std::string> shown;
  for (const JsonNode& element : get_elements(root_of(file))) shown.push_back(show(element));
  EXPECT_LT(shown.back().size(), 90u);
  shown.pop_back();
  EXPECT_THAT(shown, ElementsAre(R"("a\"\n\xc3\xa9")", "7", "-0.5", "null", "false", "an array", "an object"));
}

}  // namespace
}  // namespace qkv::testing
