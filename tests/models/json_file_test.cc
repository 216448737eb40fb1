#include "qkv/models/json_file.h"

#include "models/toy_bert.h"
#include "nn/layer_support.h"
#include "qkv/core/error.h"

namespace qkv::test {
namespace {

JsonFile read(const ModelFolder& folder, const std::string& content) {
  folder.write("a.json", content);
  return read_json_file(folder.file("a.json"));
}

std::string refusal(const std::string& content) {
  const ModelFolder folder;
  return error_of<FormatError>([&] { read(folder, content); });
}

TEST(JsonFile, KnowsWhereItsKeysStand) {
  const ModelFolder folder;
  const JsonFile file = read(folder, R"([{"a": 1}, {"b": {"c": 2}}, {"a": []}])");
  EXPECT_EQ(file.root[1]["b"]["c"], 2);
  EXPECT_EQ(file.key_bytes.at("/0/a"), 5);
  EXPECT_EQ(file.key_bytes.at("/1/b"), 15);
  EXPECT_EQ(file.key_bytes.at("/1/b/c"), 21);
  EXPECT_EQ(file.key_bytes.at("/2/a"), 32);
}

TEST(JsonFile, RefusesAKeyThatIsThereTwice) {
  EXPECT_THAT(refusal(R"({"a": 1, "a": 2})"), holds("byte 12", "duplicate key: got 'a' twice"));
  EXPECT_THAT(refusal(R"({"x": {"a": 1, "b": {"a": 1}, "a": 2}})"), holds("byte 33", "duplicate key"));
}

TEST(JsonFile, TakesTheSameKeyInDifferentObjects) {
  const ModelFolder folder;
  EXPECT_EQ(read(folder, R"({"a": {"a": {"a": 1}}, "b": [{"a": 1}, {"a": 2}]})").root["b"][1]["a"], 2);
}

TEST(JsonFile, RefusesDeepNestingOfEitherKind) {
  EXPECT_THAT(refusal(std::string(100'000, '[')), holds("nesting: got more than 32 levels"));
  std::string objects;
  for (int n = 0; n < 100'000; ++n) objects += R"({"a":)";
  EXPECT_THAT(refusal(objects), holds("nesting: got more than 32 levels"));
  const ModelFolder folder;
  EXPECT_NO_THROW(read(folder, std::string(32, '[') + std::string(32, ']')));
}

TEST(JsonFile, RefusesANulByteInsteadOfStoppingThere) {
  EXPECT_THAT(refusal(std::string("{\"a\": 1}\0garbage", 16)), holds("byte 8", "got a NUL byte"));
}

TEST(JsonFile, RefusesWhatIsNoJson) {
  for (const char* content : {"", "{", "{\"a\": }", "nonsense", "{} {}", "{\"a\": NaN}", "{\"a\": \"\xff\"}"}) {
    SCOPED_TRACE(content);
    EXPECT_THAT(refusal(content), holds("a.json: byte ", "expected JSON in UTF-8"));
  }
  EXPECT_THAT(refusal(std::string("\0\0\0", 3)), holds("expected JSON in UTF-8"));
}

TEST(JsonFile, RefusesAHugeFile) {
  EXPECT_THAT(refusal(std::string((16u << 20) + 1, ' ')), holds("size: got 16777217 bytes, expected at most 16777216"));
}

TEST(JsonFile, RefusesAMissingFileAndAFolder) {
  const ModelFolder folder;
  EXPECT_THAT(error_of<IoError>([&] { read_json_file(folder.file("none.json")); }), holds(folder.file("none.json")));
  EXPECT_THROW(read_json_file(folder.path()), IoError);
}

TEST(JsonFields, ReadWhatTheyAreAskedFor) {
  const ModelFolder folder;
  const JsonFile file = read(folder, R"({"n": 7, "x": 0.5, "s": "text", "t": true, "none": null})");
  const JsonFields fields(file, "");
  EXPECT_EQ(fields.integer("n", 1, 7), 7);
  EXPECT_EQ(fields.number("x", 0, 1), 0.5);
  EXPECT_EQ(fields.number("n", 0, 10), 7);
  EXPECT_EQ(fields.text("s"), "text");
  EXPECT_TRUE(fields.flag("t", false));
  EXPECT_EQ(fields.integer("none", 0, 9, 3), 3);
  EXPECT_EQ(fields.integer("absent", 0, 9, 4), 4);
  EXPECT_EQ(fields.text("absent", "default"), "default");
}

std::string integer_refusal(const std::string& value) {
  const ModelFolder folder;
  const JsonFile file = read(folder, R"({"n": )" + value + "}");
  return error_of<FormatError>([&] { JsonFields(file, "").integer("n", 1, 100); });
}

TEST(JsonFields, RefuseIntegersThatAreNone) {
  for (const char* value : {"0", "-1", "101", "1e18", "9223372036854775807", "18446744073709551615",
                            "99999999999999999999999", "1.0", "\"12\"", "true", "[1]", "{}"}) {
    SCOPED_TRACE(value);
    EXPECT_THAT(integer_refusal(value), holds("byte 4: n: got ", "expected a whole number from 1 to 100"));
  }
  EXPECT_THAT(integer_refusal("null"), holds("n: got nothing, expected a whole number"));
}

TEST(JsonFields, RefuseOtherKinds) {
  const ModelFolder folder;
  const JsonFile file = read(folder, R"({"n": 7, "s": "text", "big": 1e300})");
  const JsonFields fields(file, "");
  EXPECT_THAT(error_of<FormatError>([&] { fields.number("s", 0, 1); }), holds("s: got 'text', expected a number"));
  EXPECT_THAT(error_of<FormatError>([&] { fields.number("big", 0, 1); }), holds("big: got 1e+300"));
  EXPECT_THAT(error_of<FormatError>([&] { fields.text("n"); }), holds("n: got 7, expected a string"));
  EXPECT_THAT(error_of<FormatError>([&] { fields.flag("n", false); }), holds("n: got 7, expected true or false"));
  EXPECT_THAT(error_of<FormatError>([&] { JsonFields(file, "/n"); }), holds("got 7, expected an object"));
}

TEST(JsonFields, ShowValuesOnOneShortAsciiLine) {
  EXPECT_EQ(to_message("a\nb\x1b[31m\u00e9"), "'a\\nb\\u001b[31m\\u00e9'");
  EXPECT_LE(to_message(std::string(1000, 'x')).size(), 64u);
}

}  // namespace
}  // namespace qkv::test
