#include "qkv/io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "qkv/core/error.h"
#include "tests/io/file_support.h"

namespace qkv {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
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

std::vector<float> list(const TensorValues<float>& tensor) {
  return {tensor.values.data(), tensor.values.data() + tensor.values.size()};
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
