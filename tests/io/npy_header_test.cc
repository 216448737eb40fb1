#include "qkv/io/npy_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using testing::npy;
using testing::npy_dict;

NpyHeader parse(const std::string& file) {
  return parse_npy_header("some.npy", exact_bytes(file));
}

FormatError error_in(const std::string& file) {
  return error_of<FormatError>([&] { parse(file); });
}

void expect_refused(const std::string& file, const std::string& reason) {
  try {
    parse(file);
    ADD_FAILURE() << "accepted: " << file;
  } catch (const FormatError& error) {
    EXPECT_THAT(error.what(), HasSubstr(reason)) << file;
    EXPECT_LE(error.byte_offset(), file.size()) << file;
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << file;
  }
}

std::string zeros(std::size_t count) {
  return std::string(count, '\0');
}

// ---- what is accepted

TEST(NpyHeader, ReadsVersions1To3) {
  for (char version : {1, 2, 3}) {
    const std::string file = npy(npy_dict("<f4", "(2, 3)"), zeros(24), version);
    const auto header = parse(file);
    EXPECT_EQ(header.descr, "<f4");
    EXPECT_FALSE(header.fortran_order);
    EXPECT_THAT(header.shape, ElementsAre(2, 3));
    EXPECT_EQ(header.data_begin, static_cast<Index>(file.size()) - 24);
  }
}

TEST(NpyHeader, ReadsShapesOfAnyRank) {
  EXPECT_THAT(parse(npy(npy_dict("<f4", "()"), zeros(4))).shape, IsEmpty());
  EXPECT_THAT(parse(npy(npy_dict("<f4", "(1,)"), zeros(4))).shape, ElementsAre(1));
  EXPECT_THAT(parse(npy(npy_dict("<f4", "(0,)"))).shape, ElementsAre(0));
  EXPECT_THAT(parse(npy(npy_dict("|u1", "(2, 1, 3, 2, 1)"), zeros(12))).shape, ElementsAre(2, 1, 3, 2, 1));
  EXPECT_THAT(parse(npy(npy_dict("|u1", "(0, 9223372036854775807)"))).shape, ElementsAre(0, 9223372036854775807));
}

TEST(NpyHeader, ReadsEveryDtype) {
  using Kind = NpyDtype::Kind;
  const std::vector<std::pair<std::string, NpyDtype>> dtypes{
      {"|b1", {Kind::kBool, 1}},     {"<b1", {Kind::kBool, 1}},   {"|i1", {Kind::kSigned, 1}},
      {"|u1", {Kind::kUnsigned, 1}}, {"<i2", {Kind::kSigned, 2}}, {">u4", {Kind::kUnsigned, 4, std::endian::big}},
      {"<i8", {Kind::kSigned, 8}},   {"<f2", {Kind::kFloat, 2}},  {">f4", {Kind::kFloat, 4, std::endian::big}},
      {"<f8", {Kind::kFloat, 8}},
  };
  for (const auto& [descr, expected] : dtypes) {
    const auto dtype = parse(npy(npy_dict(descr, "(3,)"), zeros(3 * static_cast<std::size_t>(expected.bytes)))).dtype;
    EXPECT_EQ(dtype.kind, expected.kind) << descr;
    EXPECT_EQ(dtype.bytes, expected.bytes) << descr;
    EXPECT_EQ(dtype.order, expected.order) << descr;
  }
}

TEST(NpyHeader, ReadsAnyLayoutOfTheDict) {
  for (const char* text : {R"({"shape": (2,), "fortran_order": True, "descr": "<f4"})",
                           " \t{\n'shape':(2,),'descr':'<f4','fortran_order':True}   \n",
                           "{ 'descr' : '<f4' , 'fortran_order' : True , 'shape' : ( 2 , ) , }",
                           "{'descr':'<f4','fortran_order':True,'shape':(2,),}"}) {
    const auto header = parse(npy(text, zeros(8)));
    EXPECT_THAT(header.shape, ElementsAre(2)) << text;
    EXPECT_TRUE(header.fortran_order) << text;
  }
}

// ---- magic, version, length

TEST(NpyHeader, RefusesOtherFiles) {
  expect_refused("", "expected the magic bytes");
  expect_refused("\x93NUMP", "expected the magic bytes");
  expect_refused("PK\x03\x04 a zip file", "expected the magic bytes");
  EXPECT_EQ(error_in("").byte_offset(), 0u);
}

TEST(NpyHeader, RefusesOtherVersions) {
  std::string file = npy(npy_dict("<f4", "()"), zeros(4));
  for (const auto& [major, minor] : std::vector<std::pair<char, char>>{{0, 0}, {1, 1}, {4, 0}, {'\xff', 0}}) {
    file[6] = major;
    file[7] = minor;
    expect_refused(file, "version");
    EXPECT_EQ(error_in(file).byte_offset(), 6u);
  }
}

TEST(NpyHeader, RefusesALengthBeyondTheFile) {
  std::string file = npy(npy_dict("<f4", "()"), "", 2);
  file[8] = file[9] = file[10] = file[11] = '\xff';
  expect_refused(file, "got 4294967295, expected at most");
  EXPECT_EQ(error_in(file).byte_offset(), 8u);
  file = npy(npy_dict("<f4", "()"));
  file[9] = '\xff';
  expect_refused(file, "header length");
}

TEST(NpyHeader, RefusesAFileThatEndsInTheLength) {
  EXPECT_EQ(error_in(npy("").substr(0, 9)).byte_offset(), 9u);
  EXPECT_EQ(error_in(npy("", "", 2).substr(0, 11)).byte_offset(), 11u);
  expect_refused(npy(""), "got the end, expected {");
}

// ---- the dict

TEST(NpyHeader, RefusesWhatIsNoDict) {
  for (const char* text : {"[]", "()", "None", "{", "{'descr'", "{'descr':", "{'descr'}", "{,}", "{'descr': '<f4',, }",
                           "{'descr': '<f4' 'shape': ()}", "__import__('os').system('x')", "{descr: '<f4'}"}) {
    expect_refused(npy(text, zeros(4)), "header: got");
  }
}

TEST(NpyHeader, RefusesTextAfterTheDict) {
  expect_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': ()} x", zeros(4)),
                 "got \"x\", expected nothing");
  expect_refused(npy(npy_dict("<f4", "()") + '\0', zeros(4)), "expected nothing");
}

TEST(NpyHeader, NeedsItsThreeKeysOnceEach) {
  expect_refused(npy("{}"), "without descr");
  expect_refused(npy("{'descr': '<f4', 'shape': ()}", zeros(4)), "without fortran_order");
  expect_refused(npy("{'descr': '<f4', 'fortran_order': False}", zeros(4)), "without shape");
  expect_refused(npy("{'descr': '<f4', 'descr': '<f4'}", zeros(4)), "twice the key \"descr\"");
  expect_refused(npy("{'descr': '<f4', 'x': 1}", zeros(4)), "the key \"x\"");
}

TEST(NpyHeader, RefusesStringsThatDoNotEndOrHoldEscapes) {
  expect_refused(npy("{'descr"), "a string on one line");
  expect_refused(npy("{'descr\": 1}"), "a string on one line");
  expect_refused(npy("{'de\\x73cr': '<f4'}"), "without escapes");
  expect_refused(npy("{'de\nscr': '<f4'}"), "a string on one line");
}

TEST(NpyHeader, NamesTheDtypeThatItDoesNotRead) {
  for (const char* descr : {"|O", "<U5", "|S3", "<c8", "<c16", "<M8[ns]", "|V2", "<f16", "<f1", "<i3", "<b2", "f4",
                            "=f4", "|f4", "<f", "", "<f40", "<?1"}) {
    const auto file = npy(npy_dict(descr, "()"), zeros(8));
    expect_refused(file, "got descr \"" + std::string(descr) + "\", expected dtype b1, ");
    EXPECT_EQ(error_in(file).byte_offset(), file.find(": '") + 2);
  }
}

TEST(NpyHeader, NamesStructuredDtypes) {
  expect_refused(npy("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': ()}", zeros(4)),
                 "the structured dtype \"[('x', '<f4')]\"");
}

TEST(NpyHeader, RefusesOrdersThatAreNoBool) {
  for (const char* order : {"0", "1", "true", "None", "'True'", ""}) {
    expect_refused(npy("{'descr': '<f4', 'fortran_order': " + std::string(order) + ", 'shape': ()}", zeros(4)),
                   "expected True or False");
  }
  expect_refused(npy("{'descr': '<f4', 'fortran_order': Falsehood, 'shape': ()}", zeros(4)), "got \"hood");
}

TEST(NpyHeader, RefusesShapesThatAreNoTuples) {
  for (const char* shape :
       {"3", "(3)", "[3]", "[]", "None", "(", "(3", "(3,", "(3 4)", "(3, 4", "(,)", "(3,,)", "((3,),)"}) {
    expect_refused(npy(npy_dict("<f4", shape), zeros(12)), "header: got");
  }
}

TEST(NpyHeader, RefusesLengthsThatAreNoWholeNumbers) {
  for (const char* length : {"-1", "+1", "1.0", "1e0", "True", "'1'", "01", "0x1", "1_0", "9223372036854775808"}) {
    expect_refused(npy(npy_dict("<f4", std::string("(") + length + ",)"), zeros(4)), "header: got");
  }
}

TEST(NpyHeader, RefusesShapesWhoseProductWraps) {
  for (const char* shape : {"(4294967296, 4294967296)", "(9223372036854775807, 2)", "(4611686018427387904,)"}) {
    expect_refused(npy(npy_dict("<f4", shape)), "size in bytes below 2^63");
  }
}

TEST(NpyHeader, RefusesMoreThan64Axes) {
  std::string shape = "(1";
  for (int axis = 1; axis < 64; ++axis) shape += ", 1";
  EXPECT_EQ(parse(npy(npy_dict("|u1", shape + ")"), zeros(1))).shape.size(), 64u);
  expect_refused(npy(npy_dict("|u1", shape + ", 1)"), zeros(1)), "at most 64");
}

// ---- the values

TEST(NpyHeader, RefusesTooFewAndTooManyBytes) {
  const std::string dict = npy_dict("<f4", "(2, 3)");
  expect_refused(npy(dict, zeros(23)), "got 23 bytes, expected 24");
  expect_refused(npy(dict, zeros(25)), "got 25 bytes, expected 24");
  EXPECT_EQ(error_in(npy(dict, zeros(25))).byte_offset(), npy(dict).size() + 24);
  expect_refused(npy(npy_dict("<f4", "(0, 3)"), zeros(1)), "got 1 bytes, expected 0");
}

TEST(NpyHeader, RefusesEveryTruncation) {
  for (char version : {1, 2}) {
    const std::string file = npy(npy_dict("<f4", "(2,)"), zeros(8), version);
    ASSERT_NO_THROW(parse(file));
    for (std::size_t size = 0; size < file.size(); ++size) {
      EXPECT_THROW(parse(file.substr(0, size)), FormatError) << "cut to " << size;
    }
  }
}

TEST(NpyHeader, SurvivesEveryChangeOfOneByte) {
  const std::string good = npy(npy_dict("<f4", "(2, 1)"), zeros(8));
  Index accepted = 0;
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string file = good;
      file[at] = static_cast<char>(value);
      try {
        const auto header = parse(file);
        ASSERT_LE(header.data_begin, static_cast<Index>(file.size()));
        ++accepted;
      } catch (const FormatError& error) {
        ASSERT_LE(error.byte_offset(), file.size());
      }
    }
  }
  EXPECT_GT(accepted, 0);  // the values may change
}

}  // namespace
}  // namespace qkv
