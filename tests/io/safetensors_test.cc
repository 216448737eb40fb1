#include "qkv/io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "qkv/core/error.h"
#include "tests/io/file_support.h"

namespace qkv {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using testing::little_endian;
using ::testing::Pair;
using testing::safetensors;
using testing::TempFolder;

const std::vector<float> kSix{1, 2, 3, 4, 5, 6};

// Three float formats, an integer and two odd shapes; neither the header's order nor its length follows the data.
std::string mixed_file() {
  const std::string header = R"({"__metadata__":{"format":"pt","note":"\u00e9"},)"
                             R"("half":{"dtype":"F16","shape":[2],"data_offsets":[49,53]},)"
                             R"("byte":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                             R"("empty":{"dtype":"F32","shape":[0,4],"data_offsets":[49,49]},)"
                             R"("double":{"data_offsets":[25,49],"shape":[3],"dtype":"F64"},)"
                             R"("w":{"dtype":"F32","shape":[2,3],"data_offsets":[1,25]},)"
                             R"("brain":{"dtype":"BF16","shape":[],"data_offsets":[53,55]}})";
  return safetensors(header, "\x07" + little_endian(kSix) + little_endian(std::vector<double>{0.1, 1e300, -2}) +
                                 std::string("\x00\x3c\x01\x00", 4) + std::string("\x20\x40", 2));
}

struct OpenFile {
  TempFolder folder;
  SafetensorsFile file;
  explicit OpenFile(const std::string& content) : file(folder.write("x.safetensors", content)) {}
};

template <class T>
std::vector<T> list(const TensorValues<T>& tensor) {
  const T* begin = tensor.values.data();
  return std::vector<T>(begin, begin + tensor.values.size());
}

TEST(SafetensorsFile, ListsTensorsInTheOrderOfTheirData) {
  const OpenFile open(mixed_file());
  EXPECT_THAT(open.file.names(), ElementsAre("byte", "w", "double", "empty", "half", "brain"));
  EXPECT_TRUE(open.file.contains("w"));
  EXPECT_FALSE(open.file.contains("W"));
}

TEST(SafetensorsFile, TellsDtypeShapeAndPlaceInTheFile) {
  const OpenFile open(mixed_file());
  const SafetensorsInfo& info = open.file.info("double");
  const auto data_begin = static_cast<Index>(mixed_file().size()) - 55;
  EXPECT_EQ(info.name, "double");
  EXPECT_EQ(info.dtype, "F64");
  EXPECT_THAT(info.shape, ElementsAre(3));
  EXPECT_EQ(info.begin, data_begin + 25);
  EXPECT_EQ(info.end, data_begin + 49);
}

TEST(SafetensorsFile, HasMetadata) {
  const OpenFile open(mixed_file());
  EXPECT_THAT(open.file.metadata(), ElementsAre(Pair("format", "pt"), Pair("note", "\xc3\xa9")));
}

TEST(SafetensorsFile, LoadsF32FromAnyAlignment) {
  const OpenFile open(mixed_file());
  const Tensor<float, 2> w = open.file.load<2>("w", {2, 3});
  for (Index i = 0; i < 2; ++i) {
    for (Index j = 0; j < 3; ++j) EXPECT_EQ(w(i, j), static_cast<float>(3 * i + j + 1));
  }
}

TEST(SafetensorsFile, LoadsF64F16AndBf16AsFloat) {
  const OpenFile open(mixed_file());
  EXPECT_THAT(list(open.file.load_f32("double")), ElementsAre(0.1f, std::numeric_limits<float>::infinity(), -2.f));
  EXPECT_THAT(list(open.file.load_f32("half")), ElementsAre(1.f, 0x1p-24f));
  EXPECT_THAT(list(open.file.load_f32("brain")), ElementsAre(2.5f));
}

TEST(SafetensorsFile, LoadsEachFloatDtypeAsDoubleExactly) {
  const OpenFile open(mixed_file());
  EXPECT_THAT(list(open.file.load_f64("double")), ElementsAre(0.1, 1e300, -2));
  EXPECT_THAT(list(open.file.load_f64("w")), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(open.file.load_f64("w").shape, ElementsAre(2, 3));
  EXPECT_THAT(list(open.file.load_f64("half")), ElementsAre(1, 0x1p-24));
  EXPECT_THAT(list(open.file.load_f64("brain")), ElementsAre(2.5));
  EXPECT_THAT(error_of<std::invalid_argument>([&] { open.file.load_f64("byte"); }).what(), HasSubstr("got U8"));
  EXPECT_THROW(open.file.load_f64("missing"), std::out_of_range);
}

TEST(SafetensorsFile, LoadsRankZeroAndSizeZero) {
  const OpenFile open(mixed_file());
  EXPECT_THAT(open.file.load_f32("brain").shape, IsEmpty());
  EXPECT_THAT(open.file.load_f32("empty").shape, ElementsAre(0, 4));
  EXPECT_TRUE(open.file.load<2>("empty", {0, 4}).empty());
}

TEST(SafetensorsFile, GivesRawBytesOfAnyDtype) {
  const OpenFile open(mixed_file());
  EXPECT_THAT(open.file.bytes("byte"), ElementsAre(std::byte{7}));
  EXPECT_THAT(open.file.bytes("empty"), IsEmpty());
}

// A file of one tensor "x" of rank 1.
std::string file_of(const std::string& dtype, Index count, const std::string& data) {
  return safetensors(R"({"x":{"dtype":")" + dtype + R"(","shape":[)" + std::to_string(count) +
                         R"(],"data_offsets":[0,)" + std::to_string(data.size()) + "]}}",
                     data);
}

template <class T>
void expect_integers(const std::string& dtype) {
  const T low = std::numeric_limits<T>::min();
  const T high = sizeof(T) == 8 ? static_cast<T>(std::numeric_limits<Index>::max()) : std::numeric_limits<T>::max();
  const OpenFile open(file_of(dtype, 3, little_endian(std::vector<T>{low, 3, high})));
  EXPECT_THAT(list(open.file.load_index("x")), ElementsAre(static_cast<Index>(low), 3, static_cast<Index>(high)))
      << dtype;
}

TEST(SafetensorsFile, LoadsIntegersOfEachWidthAndSign) {
  expect_integers<std::int8_t>("I8");
  expect_integers<std::int16_t>("I16");
  expect_integers<std::int32_t>("I32");
  expect_integers<std::int64_t>("I64");
  expect_integers<std::uint8_t>("U8");
  expect_integers<std::uint16_t>("U16");
  expect_integers<std::uint32_t>("U32");
  expect_integers<std::uint64_t>("U64");
}

TEST(SafetensorsFile, RefusesIntegersBeyondInt64) {
  const OpenFile open(file_of("U64", 1, little_endian(std::uint64_t{1} << 63)));
  EXPECT_THAT(error_of<std::invalid_argument>([&] { open.file.load_index("x"); }).what(),
              HasSubstr("value 0 of \"x\" in " + open.file.path() + ": got 9223372036854775808, expected below 2^63"));
}

TEST(SafetensorsFile, LoadsBoolsAndIntegersOfZeroAndOne) {
  EXPECT_THAT(list(OpenFile(file_of("BOOL", 3, std::string("\0\1\1", 3))).file.load_bool("x")),
              ElementsAre(false, true, true));
  EXPECT_THAT(list(OpenFile(file_of("I16", 2, std::string("\1\0\0\0", 4))).file.load_bool("x")),
              ElementsAre(true, false));
}

TEST(SafetensorsFile, RefusesBoolsThatAreNeitherZeroNorOne) {
  for (const char* dtype : {"BOOL", "U8"}) {
    const OpenFile open(file_of(dtype, 2, "\1\2"));
    EXPECT_THAT(error_of<std::invalid_argument>([&] { open.file.load_bool("x"); }).what(),
                HasSubstr("got 2, expected 0 or 1"));
  }
}

TEST(SafetensorsFile, NamesTheDtypeThatIsNoIntegerOrBool) {
  const OpenFile floats(file_of("F32", 1, little_endian(1.f))), bools(file_of("BOOL", 1, "\1"));
  EXPECT_THAT(error_of<std::invalid_argument>([&] { floats.file.load_index("x"); }).what(), HasSubstr("got F32"));
  EXPECT_THAT(error_of<std::invalid_argument>([&] { floats.file.load_bool("x"); }).what(), HasSubstr("got F32"));
  EXPECT_THAT(error_of<std::invalid_argument>([&] { bools.file.load_index("x"); }).what(), HasSubstr("got BOOL"));
}

TEST(SafetensorsFile, LoadsEveryFloatTensorAsAStateDict) {
  const OpenFile open(mixed_file());
  const StateDict all = open.file.load_state_dict();
  EXPECT_THAT(all, ElementsAre(Key("brain"), Key("double"), Key("empty"), Key("half"), Key("w")));
  EXPECT_THAT(all.at("w").shape, ElementsAre(2, 3));
  EXPECT_THAT(list(all.at("w")), ::testing::ElementsAreArray(kSix));
  EXPECT_THAT(list(all.at("brain")), ElementsAre(2.5f));
}

TEST(SafetensorsFile, LoadsOnlyTheTensorsOfAPrefix) {
  const OpenFile open(mixed_file());
  EXPECT_THAT(open.file.load_state_dict("d"), ElementsAre(Key("double")));
  EXPECT_THAT(open.file.load_state_dict("nothing"), IsEmpty());
}

TEST(SafetensorsFile, MakesNoStateDictOfWeightsThatItCannotRead) {
  const OpenFile open(file_of("F8_E4M3", 1, "\1"));
  const auto error = error_of<std::invalid_argument>([&] { open.file.load_state_dict(); });
  EXPECT_THAT(error.what(), HasSubstr("\"x\""));
  EXPECT_THAT(error.what(), HasSubstr("got F8_E4M3, expected F32, F16, BF16 or F64"));
}

TEST(SafetensorsFile, NamesTheTensorAndBothShapesWhenTheyDiffer) {
  const OpenFile open(mixed_file());
  const auto error = error_of<std::invalid_argument>([&] { open.file.load<2>("w", {3, 2}); });
  EXPECT_THAT(error.what(), HasSubstr("\"w\""));
  EXPECT_THAT(error.what(), HasSubstr("got [2, 3], expected [3, 2]"));
}

TEST(SafetensorsFile, RefusesAnotherRank) {
  const OpenFile open(mixed_file());
  const auto error = error_of<std::invalid_argument>([&] { open.file.load<1>("w", {6}); });
  EXPECT_THAT(error.what(), HasSubstr("got [2, 3], expected [6]"));
}

TEST(SafetensorsFile, NamesTheDtypeThatIsNoFloat) {
  const OpenFile open(mixed_file());
  const auto error = error_of<std::invalid_argument>([&] { open.file.load_f32("byte"); });
  EXPECT_THAT(error.what(), HasSubstr("\"byte\""));
  EXPECT_THAT(error.what(), HasSubstr("got U8, expected F32, F16, BF16 or F64"));
  EXPECT_THROW(open.file.load<1>("byte", {1}), std::invalid_argument);
}

TEST(SafetensorsFile, NamesTheTensorThatIsNotThere) {
  const OpenFile open(mixed_file());
  const auto error = error_of<std::out_of_range>([&] { open.file.load_f32("missing"); });
  EXPECT_THAT(error.what(), HasSubstr("\"missing\""));
  EXPECT_THAT(error.what(), HasSubstr(open.file.path()));
  EXPECT_THROW(open.file.info("missing"), std::out_of_range);
  EXPECT_THROW(open.file.bytes("missing"), std::out_of_range);
  EXPECT_THROW((open.file.load<1>("missing", {1})), std::out_of_range);
}

TEST(SafetensorsFile, MovesAndStaysValid) {
  OpenFile open(mixed_file());
  const SafetensorsFile moved = std::move(open.file);
  EXPECT_THAT(list(moved.load_f32("w")), ::testing::ElementsAreArray(kSix));
}

TEST(SafetensorsFile, SaysWhichFileIsMissing) {
  const TempFolder folder;
  EXPECT_EQ(error_of<IoError>([&] { SafetensorsFile file(folder.file("no")); }).code().value(), ENOENT);
}

// https://github.com/leejet/stable-diffusion.cpp/issues/1396: a bad file is an error that the caller can handle.
TEST(SafetensorsFile, OpenedEarlierStaysUsableAfterABadOne) {
  const OpenFile good(mixed_file());
  const TempFolder folder;
  const auto bad = folder.write("bad", little_endian(~std::uint64_t{4}) + "{}");
  EXPECT_THROW(SafetensorsFile{bad}, FormatError);
  EXPECT_THAT(list(good.file.load_f32("w")), ::testing::ElementsAreArray(kSix));
}

}  // namespace
}  // namespace qkv
