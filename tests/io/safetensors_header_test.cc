#include "qkv/io/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <utility>

#include "qkv/core/error.h"
#include "tests/io/file_support.h"

namespace qkv {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using testing::exact_bytes;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::little_endian;
using testing::safetensors;

SafetensorsHeader parse(const std::string& file) {
  return parse_safetensors_header("some.safetensors", exact_bytes(file));
}

FormatError error_in(const std::string& file) {
  return error_of<FormatError>([&] { parse(file); });
}

// Expects that a file with this header and data is refused for a reason that holds the text.
void expect_refused(const std::string& header, const std::string& data, const std::string& reason) {
  const std::string file = safetensors(header, data);
  try {
    parse(file);
    ADD_FAILURE() << "accepted: " << header;
  } catch (const FormatError& error) {
    EXPECT_THAT(error.what(), HasSubstr(reason)) << header;
    EXPECT_LE(error.byte_offset(), file.size()) << header;
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << header;
  }
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return '"' + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + '}';
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return '{' + entry("w", dtype, shape, offsets) + '}';
}

std::string zeros(std::size_t count) {
  return std::string(count, '\0');
}

// ---- what is accepted

TEST(SafetensorsHeader, OfAnEmptyFileIsEmpty) {
  EXPECT_THAT(parse(safetensors("{}")).tensors, IsEmpty());
  EXPECT_THAT(parse(safetensors("{}")).metadata, IsEmpty());
}

TEST(SafetensorsHeader, MayBePaddedAndSpaced) {
  EXPECT_EQ(
      parse(safetensors("{ \"w\" : {\"dtype\":\"F32\",\n\"shape\":[1], \"data_offsets\":[0,4]} }      ", zeros(4)))
          .tensors.size(),
      1u);
}

TEST(SafetensorsHeader, MayHaveEmptyMetadata) {
  EXPECT_THAT(parse(safetensors(R"({"__metadata__":{}})")).metadata, IsEmpty());
}

TEST(SafetensorsHeader, MayHaveSizeZeroBetweenAndAtTheEnd) {
  const auto header =
      parse(safetensors('{' + entry("c", "F32", "[0]", "[4,4]") + ',' + entry("b", "F32", "[1]", "[0,4]") + ',' +
                            entry("a", "F32", "[9,0,9]", "[0,0]") + '}',
                        zeros(4)));
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[1].name, "b");
  EXPECT_EQ(header.tensors[2].name, "c");
}

TEST(SafetensorsHeader, MayHaveNamesOfAnyCharacters) {
  const auto header = parse(safetensors('{' + entry(R"(a\"b\n\u0000)", "F32", "[0]", "[0,0]") + ',' +
                                        entry("\xf0\x9f\x98\x80", "F32", "[0]", "[0,0]") + '}'));
  EXPECT_EQ(header.tensors[0].name, std::string("a\"b\n\0", 5));
  EXPECT_EQ(header.tensors[1].name, "\xf0\x9f\x98\x80");
}

TEST(SafetensorsHeader, KnowsTheSizeOfEveryDtype) {
  const std::vector<std::pair<std::string, int>> bits{
      {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6},     {"F6_E3M2", 6},     {"U8", 8},   {"I8", 8},
      {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8},     {"F8_E4M3FNUZ", 8}, {"I16", 16}, {"U16", 16},
      {"F16", 16},    {"BF16", 16},   {"F8_E5M2FNUZ", 8}, {"I32", 32},        {"U32", 32}, {"F32", 32},
      {"C64", 64},    {"I64", 64},    {"U64", 64},        {"F64", 64}};
  for (const auto& [dtype, size] : bits) {
    const std::string offsets = "[0," + std::to_string(size) + ']';  // 8 values take as many bytes as one has bits
    const auto header = parse(safetensors(one(dtype, "[2,4]", offsets), zeros(static_cast<std::size_t>(size))));
    EXPECT_EQ(header.tensors.at(0).dtype, dtype);
    const bool is_float = dtype == "F16" || dtype == "BF16" || dtype == "F32" || dtype == "F64";
    EXPECT_EQ(safetensors_float_format(dtype).has_value(), is_float) << dtype;
  }
}

// ---- the length field: https://github.com/ztxz16/fastllm/pull/713

TEST(SafetensorsHeader, RefusesFilesTooShortForTheLength) {
  for (std::size_t size : {0, 1, 7}) EXPECT_EQ(error_in(zeros(size)).byte_offset(), size);
}

TEST(SafetensorsHeader, RefusesAHeaderOfNoBytes) {
  EXPECT_EQ(error_in(zeros(8)).byte_offset(), 8u);
  EXPECT_THAT(error_in(safetensors("", "{}")).what(), HasSubstr("expected {"));
}

TEST(SafetensorsHeader, RefusesALengthBeyondTheFile) {
  const std::uint64_t two_63 = std::uint64_t{1} << 63;
  for (const std::uint64_t length : {~std::uint64_t{4}, ~std::uint64_t{0}, two_63, two_63 - 8, std::uint64_t{9}}) {
    const std::string file = little_endian(length) + "{}      ";
    const auto start = std::chrono::steady_clock::now();
    const auto error = error_in(file);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(100));
    EXPECT_THAT(error.what(), HasSubstr("got " + std::to_string(length) + ", expected at most 8"));
    EXPECT_EQ(error.byte_offset(), 0u);
  }
}

TEST(SafetensorsHeader, OfOneByteIsRefused) {
  expect_refused("{", "", "expected JSON");
}

TEST(SafetensorsHeader, RefusesALengthOverTheLimitOfTheFormat) {
  const std::string file = safetensors("{}" + std::string(100'000'001 - 2, ' '));
  EXPECT_THAT(error_in(file).what(), HasSubstr("got 100000001, expected at most 100000000"));
}

// ---- the text

TEST(SafetensorsHeader, MustBeginWithABrace) {
  for (const char* header : {" {}", "[]", "\xef\xbb\xbf{}", "null", "\"{}\""}) expect_refused(header, "", "expected {");
}

TEST(SafetensorsHeader, MustBeJson) {
  for (const char* header : {"{", "{\"", "{\"a\"", "{\"a\":", "{]", "{}}", "{},", "{} x", "{'a':{}}", "{/**/}",
                             "{\"a\":{},}", "{\"\\x\":{}}", "{\"a\nb\":{}}", "{\"\\ud800\":{}}"}) {
    expect_refused(header, "", "");
  }
}

TEST(SafetensorsHeader, MustBeUtf8) {
  for (const char* name : {"\xff", "\xc0\xaf", "\xe2\x82", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
    expect_refused('{' + entry(name, "F32", "[0]", "[0,0]") + '}', "", "expected JSON in UTF-8");
  }
}

TEST(SafetensorsHeader, RefusesANulByteAndWhatItWouldHide) {
  expect_refused(std::string("{}\0", 3), "", "NUL");
  expect_refused(std::string("{}\0garbage", 10), "", "NUL");
  EXPECT_EQ(error_in(safetensors(std::string("{}\0garbage", 10))).byte_offset(), 10u);
}

TEST(SafetensorsHeader, RefusesDeepNestingAtItsFirstBracket) {
  expect_refused("{\"w\":" + std::string(1'000'000, '['), "", "got an array, expected an object");
  expect_refused(one("F32", std::string(1'000'000, '['), "[0,4]"), "", "got an array, expected a whole number");
  std::string objects = "{";
  for (int i = 0; i < 100'000; ++i) objects += "\"w\":{";
  expect_refused(objects, "", "unknown field");
}

TEST(SafetensorsHeader, TellsTheByteWhereItGoesWrong) {
  const std::string header = R"({"w":{"dtype":"F99","shape":[],"data_offsets":[0,4]}})";
  const auto error = error_in(safetensors(header, zeros(4)));
  EXPECT_EQ(error.byte_offset(), 8 + header.find(",\"shape"));
  EXPECT_EQ(error.path(), "some.safetensors");
}

// ---- names and fields

TEST(SafetensorsHeader, RefusesANameTwice) {
  const std::string w = entry("w", "F32", "[1]", "[0,4]");
  expect_refused('{' + w + ',' + w + '}', zeros(4), "duplicate name: got \"w\"");
  expect_refused('{' + w + ',' + entry("\\u0077", "F32", "[0]", "[4,4]") + '}', zeros(4), "duplicate name");
  expect_refused(R"({"__metadata__":{},"__metadata__":{}})", "", "duplicate name");
}

TEST(SafetensorsHeader, RefusesAFieldTwice) {
  expect_refused(R"({"w":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", zeros(4),
                 "duplicate field");
  expect_refused(R"({"w":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}})", zeros(4), "duplicate field");
  expect_refused(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"data_offsets":[0,4]}})", zeros(4),
                 "duplicate field");
  expect_refused(R"({"__metadata__":{"a":"1","a":"2"}})", "", "duplicate field: got \"a\"");
}

TEST(SafetensorsHeader, RefusesUnknownFields) {
  expect_refused(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", zeros(4),
                 "unknown field: got \"x\"");
  expect_refused(R"({"w":{"Dtype":"F32","shape":[1],"data_offsets":[0,4]}})", zeros(4), "unknown field: got \"Dtype\"");
}

TEST(SafetensorsHeader, RefusesMissingFields) {
  expect_refused(R"({"w":{"shape":[1],"data_offsets":[0,4]}})", zeros(4), "no dtype");
  expect_refused(R"({"w":{"dtype":"F32","data_offsets":[0,4]}})", zeros(4), "no shape");
  expect_refused(R"({"w":{"dtype":"F32","shape":[1]}})", zeros(4), "no data_offsets");
  expect_refused(R"({"w":{}})", "", "no dtype");
}

TEST(SafetensorsHeader, RefusesEntriesThatAreNoObjects) {
  for (const char* value : {"1", "-1", "1.5", "\"x\"", "null", "true", "[]"}) {
    expect_refused("{\"w\":" + std::string(value) + '}', "", "\"w\": got");
  }
}

TEST(SafetensorsHeader, RefusesFieldsOfTheWrongKind) {
  for (const char* value : {"1", "null", "true", "[]", "{}"}) {
    expect_refused("{\"w\":{\"dtype\":" + std::string(value) + "}}", "", "dtype: got");
  }
  for (const char* field : {"shape", "data_offsets"}) {
    for (const char* value : {"1", "-1", "1.5", "null", "false", "\"[1]\"", "{}"}) {
      expect_refused("{\"w\":{\"" + std::string(field) + "\":" + value + "}}", "", std::string(field) + ": got");
    }
  }
}

TEST(SafetensorsHeader, RefusesMetadataThatIsNoMapOfStrings) {
  for (const char* value : {"1", "null", "true", "[]", "\"x\""}) {
    expect_refused("{\"__metadata__\":" + std::string(value) + '}', "", "\"__metadata__\": got");
  }
  for (const char* value : {"1", "null", "true", "[]", "{}"}) {
    expect_refused("{\"__metadata__\":{\"a\":" + std::string(value) + "}}", "", "expected a string");
  }
  expect_refused('{' + entry("__metadata__", "F32", "[1]", "[0,4]") + '}', zeros(4), "expected a string");
}

TEST(SafetensorsHeader, NamesAnUnknownDtype) {
  expect_refused(one("F31", "[1]", "[0,4]"), zeros(4), "unknown dtype: got \"F31\"");
  expect_refused(one("f32", "[1]", "[0,4]"), zeros(4), "unknown dtype: got \"f32\"");
  expect_refused(one("", "[1]", "[0,4]"), zeros(4), "unknown dtype: got \"\"");
}

// ---- shapes: https://github.com/google-ai-edge/LiteRT/issues/9255

TEST(SafetensorsHeader, RefusesShapesWhoseProductWraps) {
  for (const char* shape : {"[4294967296,4294967296]", "[2147483648,8589934592,1]", "[4611686018427387904,4]",
                            "[9223372036854775807,9223372036854775807]", "[9223372036854775807]"}) {
    expect_refused(one("F32", shape, "[0,0]"), "", "size in bits below 2^63");
  }
  expect_refused(one("U8", "[2305843009213693952]", "[0,0]"), "",
                 "size in bits below 2^63");  // 2^61: only the bits wrap
}

TEST(SafetensorsHeader, RefusesLengthsThatAreNoWholeNumbers) {
  for (const char* shape : {"[1000.0]", "[1e3]", "[1.5]", "[1e999]", "[-1]", "[-1,-4]", "[-0]", "[\"1\"]", "[null]",
                            "[true]", "[[1]]", "[{}]", "[01]", "[+1]", "[0x1]", "[NaN]"}) {
    expect_refused(one("F32", shape, "[0,4]"), zeros(4), "");
  }
}

TEST(SafetensorsHeader, RefusesLengthsBeyondInt64) {
  expect_refused(one("F32", "[9223372036854775808,2]", "[0,0]"), "", "got 9223372036854775808, expected < 2^63");
  expect_refused(one("F32", "[18446744073709551616]", "[0,0]"), "", "expected a whole number");
  expect_refused(one("F32", "[0]", "[0,18446744073709551615]"), "", "expected < 2^63");
}

TEST(SafetensorsHeader, RefusesMoreThan64Axes) {
  std::string shape = "[1";
  for (int axis = 1; axis < 64; ++axis) shape += ",1";
  EXPECT_EQ(parse(safetensors(one("F32", shape + ']', "[0,4]"), zeros(4))).tensors[0].shape.size(), 64u);
  expect_refused(one("F32", shape + ",1]", "[0,4]"), zeros(4), "at most 64");
}

// ---- offsets: https://github.com/ohdearquant/lattice/issues/752

TEST(SafetensorsHeader, RefusesTensorsThatOverlap) {
  const std::string a = entry("a", "F32", "[2]", "[0,8]");
  expect_refused('{' + a + ',' + entry("b", "F32", "[2]", "[0,8]") + '}', zeros(8), "\"b\": data_offsets");
  expect_refused('{' + a + ',' + entry("b", "F32", "[2]", "[4,12]") + '}', zeros(12), "got begin 4, expected 8");
  expect_refused('{' + a + ',' + entry("b", "F32", "[0]", "[4,4]") + '}', zeros(8), "got begin 4, expected 8");
}

TEST(SafetensorsHeader, RefusesHoles) {
  expect_refused('{' + entry("a", "F32", "[1]", "[0,4]") + ',' + entry("b", "F32", "[1]", "[8,12]") + '}', zeros(12),
                 "got begin 8, expected 4");
  expect_refused(one("F32", "[1]", "[4,8]"), zeros(8), "got begin 4, expected 0");
}

TEST(SafetensorsHeader, RefusesBytesAfterTheLastTensor) {
  const std::string file = safetensors(one("F32", "[1]", "[0,4]"), zeros(8));
  EXPECT_THAT(error_in(file).what(), HasSubstr("bytes that belong to no tensor: got 4, expected 0"));
  EXPECT_EQ(error_in(file).byte_offset(), file.size() - 4);
  expect_refused("{}", zeros(1), "got 1, expected 0");
}

TEST(SafetensorsHeader, RefusesTensorsBeyondTheFile) {
  expect_refused(one("F32", "[2]", "[0,8]"), zeros(4), "got [0, 8], expected begin <= end <= 4");
  expect_refused(one("F32", "[0]", "[9223372036854775807,9223372036854775807]"), zeros(4),
                 "expected begin <= end <= 4");
}

TEST(SafetensorsHeader, RefusesAnEndBeforeTheBegin) {
  expect_refused(one("F32", "[1]", "[4,0]"), zeros(4), "got [4, 0], expected begin <= end");
}

TEST(SafetensorsHeader, RefusesSizesThatDisagreeWithTheShape) {
  expect_refused(one("F32", "[2]", "[0,4]"), zeros(4), "got 4 bytes");
  expect_refused(one("F16", "[1]", "[0,4]"), zeros(4), "got 4 bytes");
  expect_refused(one("F32", "[]", "[0,0]"), "", "got 0 bytes");
  expect_refused(one("F4", "[1]", "[0,1]"), zeros(1), "got 1 bytes");  // half a byte
}

TEST(SafetensorsHeader, RefusesOffsetsThatAreNotTwo) {
  expect_refused(one("F32", "[1]", "[]"), zeros(4), "got 0 numbers, expected 2");
  expect_refused(one("F32", "[1]", "[0]"), zeros(4), "got 1 numbers, expected 2");
  expect_refused(one("F32", "[1]", "[0,4,4]"), zeros(4), "expected at most 2");
}

// ---- every damage to a good file

TEST(SafetensorsHeader, RefusesEveryTruncation) {
  const std::string file = safetensors("{\"__metadata__\":{\"k\":\"v\"}," + entry("a", "F32", "[2]", "[0,8]") + ',' +
                                           entry("b", "BF16", "[]", "[8,10]") + '}',
                                       zeros(10));
  ASSERT_NO_THROW(parse(file));
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_THROW(parse(file.substr(0, size)), FormatError) << "cut to " << size;
  }
}

TEST(SafetensorsHeader, SurvivesEveryChangeOfOneByte) {
  const std::string good = safetensors("{\"__metadata__\":{\"k\":\"v\"}," + entry("a", "F32", "[2]", "[0,8]") + ',' +
                                           entry("b", "BF16", "[]", "[8,10]") + '}',
                                       zeros(10));
  Index accepted = 0;
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string file = good;
      file[at] = static_cast<char>(value);
      try {
        const auto header = parse(file);
        for (const auto& tensor : header.tensors) {
          ASSERT_LE(tensor.begin, tensor.end);
          ASSERT_LE(tensor.end, static_cast<Index>(file.size()));
        }
        ++accepted;
      } catch (const FormatError& error) {
        ASSERT_LE(error.byte_offset(), file.size());
      }
    }
  }
  EXPECT_GT(accepted, 0);  // names and data may change
}

}  // namespace
}  // namespace qkv
