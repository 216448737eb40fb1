#include "qkv/io/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "qkv/core/error.h"
#include "tests/io/file_support.h"

namespace qkv {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::little_endian;
using testing::npy;
using testing::npy_dict;
using testing::read_all;
using testing::TempFolder;

template <class T>
std::vector<T> list(const TensorValues<T>& tensor) {
  const T* begin = tensor.values.data();
  return std::vector<T>(begin, begin + tensor.values.size());
}

NpyFile open(const std::string& descr, const std::string& shape, const std::string& data, bool fortran_order = false) {
  const TempFolder folder;  // a mapped file outlives its name
  return NpyFile(folder.write("x.npy", npy(npy_dict(descr, shape, fortran_order), data)));
}

std::string big_endian(const std::string& little, std::size_t width) {
  std::string result = little;
  for (std::size_t at = 0; at < result.size(); at += width) {
    std::reverse(result.begin() + static_cast<std::ptrdiff_t>(at),
                 result.begin() + static_cast<std::ptrdiff_t>(at + width));
  }
  return result;
}

// ---- float

TEST(NpyFile, ReadsFloatsOfEachWidthAndByteOrder) {
  const std::vector<float> expected{1.5f, -2.f, 0.25f};
  const std::string f4 = little_endian(expected);
  const std::string f8 = little_endian(std::vector<double>{1.5, -2, 0.25});
  const std::string f2 = little_endian(std::vector<std::uint16_t>{0x3e00, 0xc000, 0x3400});
  EXPECT_EQ(list(open("<f4", "(3,)", f4).to_f32()), expected);
  EXPECT_EQ(list(open(">f4", "(3,)", big_endian(f4, 4)).to_f32()), expected);
  EXPECT_EQ(list(open("<f8", "(3,)", f8).to_f32()), expected);
  EXPECT_EQ(list(open(">f8", "(3,)", big_endian(f8, 8)).to_f32()), expected);
  EXPECT_EQ(list(open("<f2", "(3,)", f2).to_f32()), expected);
  EXPECT_EQ(list(open(">f2", "(3,)", big_endian(f2, 2)).to_f32()), expected);
}

TEST(NpyFile, ReadsFloatsOfEachWidthAndByteOrderAsDoubles) {
  const std::vector<double> doubles{0.1, -1e308, 5e-324};
  const std::string f8 = little_endian(doubles);
  const std::string f4 = little_endian(std::vector<float>{0.1f, -2.f});
  const std::string f2 = little_endian(std::vector<std::uint16_t>{0x3e00, 0xc000});
  EXPECT_EQ(list(open("<f8", "(3,)", f8).to_f64()), doubles);
  EXPECT_EQ(list(open(">f8", "(3,)", big_endian(f8, 8)).to_f64()), doubles);
  EXPECT_THAT(list(open("<f4", "(2,)", f4).to_f64()), ElementsAre(static_cast<double>(0.1f), -2));
  EXPECT_THAT(list(open(">f4", "(2,)", big_endian(f4, 4)).to_f64()), ElementsAre(static_cast<double>(0.1f), -2));
  EXPECT_THAT(list(open("<f2", "(2,)", f2).to_f64()), ElementsAre(1.5, -2));
  EXPECT_THAT(list(open(">f2", "(2,)", big_endian(f2, 2)).to_f64()), ElementsAre(1.5, -2));
  EXPECT_THAT(list(open("<f8", "(3, 1)", f8, true).to_f64()), ElementsAreArray(doubles));
}

TEST(NpyFile, TellsDtypeShapeAndOrder) {
  const NpyFile file = open("<f4", "(1, 2)", std::string(8, '\0'), true);
  EXPECT_EQ(file.descr(), "<f4");
  EXPECT_THAT(file.shape(), ElementsAre(1, 2));
  EXPECT_TRUE(file.fortran_order());
}

TEST(NpyFile, ReadsRankZeroAndSizeZero) {
  const auto scalar = open("<f4", "()", little_endian(7.f)).to_f32();
  EXPECT_THAT(scalar.shape, IsEmpty());
  EXPECT_THAT(list(scalar), ElementsAre(7.f));
  for (bool fortran_order : {false, true}) {
    const auto empty = open("<f4", "(3, 0)", "", fortran_order).to_f32();
    EXPECT_THAT(empty.shape, ElementsAre(3, 0));
    EXPECT_THAT(list(empty), IsEmpty());
  }
}

// https://github.com/GUDHI/gudhi-devel/issues/1339: Fortran order read as if it were row-major.
TEST(NpyFile, GivesFortranOrderAsRowMajor) {
  const std::string data = little_endian(std::vector<float>{1, 4, 2, 5, 3, 6});
  const auto tensor = open("<f4", "(2, 3)", data, true).to_f32();
  EXPECT_THAT(tensor.shape, ElementsAre(2, 3));
  EXPECT_THAT(list(tensor), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(NpyFile, GivesFortranOrderOfAnyRankAsRowMajor) {
  // The value at [a, b, c, d] is its row-major place; stored with a fastest.
  std::vector<std::int16_t> stored;
  for (int d = 0; d < 2; ++d)
    for (int c = 0; c < 1; ++c)
      for (int b = 0; b < 4; ++b)
        for (int a = 0; a < 3; ++a) stored.push_back(static_cast<std::int16_t>(((a * 4 + b) * 1 + c) * 2 + d));
  const auto values = list(open("<i2", "(3, 4, 1, 2)", little_endian(stored), true).to_index());
  ASSERT_EQ(values.size(), 24u);
  for (Index i = 0; i < 24; ++i) EXPECT_EQ(values[static_cast<std::size_t>(i)], i);
}

TEST(NpyFile, GivesNoFloatsOfIntegersOrBools) {
  for (const char* descr : {"|b1", "|u1", "|i1"}) {
    const NpyFile file = open(descr, "(1,)", "\1");
    const auto error = error_of<std::invalid_argument>([&] { file.to_f32(); });
    EXPECT_THAT(error.what(), HasSubstr("NpyFile::to_f32"));
    EXPECT_THAT(error.what(), HasSubstr("got \"" + std::string(descr) + "\", expected a float dtype"));
    EXPECT_THAT(error.what(), HasSubstr(file.path()));
    EXPECT_THAT(error_of<std::invalid_argument>([&] { file.to_f64(); }).what(), HasSubstr("NpyFile::to_f64"));
  }
}

// ---- integers and bools

template <class T>
void expect_integers(const std::string& kind) {
  const std::string width = std::to_string(sizeof(T));
  const T low = std::numeric_limits<T>::min();
  const T high = sizeof(T) == 8 ? static_cast<T>(std::numeric_limits<Index>::max()) : std::numeric_limits<T>::max();
  const std::string data = little_endian(std::vector<T>{low, 3, high});
  for (const bool big : {false, true}) {
    const std::string descr = (big ? ">" : "<") + kind + width;
    EXPECT_THAT(list(open(descr, "(3,)", big ? big_endian(data, sizeof(T)) : data).to_index()),
                ElementsAre(static_cast<Index>(low), 3, static_cast<Index>(high)))
        << descr;
  }
}

TEST(NpyFile, ReadsIntegersOfEachWidthSignAndByteOrder) {
  expect_integers<std::int8_t>("i");
  expect_integers<std::int16_t>("i");
  expect_integers<std::int32_t>("i");
  expect_integers<std::int64_t>("i");
  expect_integers<std::uint8_t>("u");
  expect_integers<std::uint16_t>("u");
  expect_integers<std::uint32_t>("u");
  expect_integers<std::uint64_t>("u");
}

TEST(NpyFile, RefusesIntegersBeyondInt64) {
  const NpyFile file = open("<u8", "(2,)", little_endian(std::vector<std::uint64_t>{1, std::uint64_t{1} << 63}));
  const auto error = error_of<std::invalid_argument>([&] { file.to_index(); });
  EXPECT_THAT(error.what(), HasSubstr("value 1 of "));
  EXPECT_THAT(error.what(), HasSubstr("got 9223372036854775808"));
}

TEST(NpyFile, GivesNoIndicesOfFloatsOrBools) {
  for (const char* descr : {"<f4", "<f8", "|b1"}) {
    const NpyFile file = open(descr, "(0,)", "");
    EXPECT_THAT(error_of<std::invalid_argument>([&] { file.to_index(); }).what(),
                HasSubstr("got \"" + std::string(descr) + "\", expected an integer dtype"));
  }
}

TEST(NpyFile, ReadsBoolsAndIntegersOfZeroAndOne) {
  EXPECT_THAT(list(open("|b1", "(3,)", std::string("\0\1\1", 3)).to_bool()), ElementsAre(false, true, true));
  EXPECT_THAT(list(open("|u1", "(2,)", std::string("\1\0", 2)).to_bool()), ElementsAre(true, false));
  EXPECT_THAT(list(open(">i4", "(2,)", std::string("\0\0\0\1\0\0\0\0", 8)).to_bool()), ElementsAre(true, false));
  EXPECT_THAT(list(open("|b1", "(2, 2)", std::string("\0\1\1\1", 4), true).to_bool()),
              ElementsAre(false, true, true, true));
}

TEST(NpyFile, RefusesBoolsThatAreNeitherZeroNorOne) {
  for (const char* descr : {"|b1", "|u1", "|i1"}) {
    const NpyFile file = open(descr, "(2,)", "\1\2");
    const auto error = error_of<std::invalid_argument>([&] { file.to_bool(); });
    EXPECT_THAT(error.what(), HasSubstr("value 1 of ")) << descr;
    EXPECT_THAT(error.what(), HasSubstr("got 2, expected 0 or 1")) << descr;
  }
  const NpyFile negative = open("<i2", "(1,)", "\xff\xff");
  EXPECT_THAT(error_of<std::invalid_argument>([&] { negative.to_bool(); }).what(),
              HasSubstr("got -1, expected 0 or 1"));
}

TEST(NpyFile, GivesNoBoolsOfFloats) {
  const NpyFile file = open("<f4", "(1,)", little_endian(1.f));
  EXPECT_THAT(error_of<std::invalid_argument>([&] { file.to_bool(); }).what(), HasSubstr("got \"<f4\", expected bool"));
}

TEST(NpyFile, SaysWhatIsNoFile) {
  const TempFolder folder;
  EXPECT_EQ(error_of<IoError>([&] { NpyFile file(folder.file("no")); }).code().value(), ENOENT);
  EXPECT_EQ(error_of<IoError>([&] { NpyFile file(folder.file("")); }).code().value(), EISDIR);
  EXPECT_THROW(NpyFile(folder.write("empty", "")), FormatError);
}

// ---- writing

TEST(WriteNpy, IsReadBackWithTheSameBits) {
  const TempFolder folder;
  const std::vector<float> values{1.f, -0.f, std::numeric_limits<float>::infinity(), 1e-45f, 3e38f, 0.1f};
  for (const std::vector<Index>& shape :
       {std::vector<Index>{6}, {2, 3}, {1, 6, 1}, {3, 2, 1, 1, 1}, std::vector<Index>(64, 1)}) {
    const auto count = shape.size() == 64 ? 1 : values.size();
    write_npy(folder.file("x"), shape, std::span(values).first(count));
    const auto tensor = NpyFile(folder.file("x")).to_f32();
    EXPECT_EQ(tensor.shape, shape);
    EXPECT_THAT(list(tensor), ElementsAreArray(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count)));
  }
  EXPECT_THAT(folder.names(), ElementsAre("x"));
}

TEST(WriteNpy, OfDoublesIsReadBackWithTheSameBits) {
  const TempFolder folder;
  const std::vector<double> values{1, -0., std::numeric_limits<double>::infinity(), 5e-324, 1e308, 0.1};
  write_npy(folder.file("x"), std::vector<Index>{2, 3}, values);
  const NpyFile file(folder.file("x"));
  EXPECT_EQ(file.descr(), "<f8");
  const auto tensor = file.to_f64();
  EXPECT_THAT(tensor.shape, ElementsAre(2, 3));
  EXPECT_EQ(little_endian(list(tensor)), little_endian(values));
}

TEST(WriteNpy, KeepsNaN) {
  const TempFolder folder;
  write_npy(folder.file("x"), {}, std::vector<float>{std::nanf("")});
  const auto tensor = NpyFile(folder.file("x")).to_f32();
  EXPECT_THAT(tensor.shape, IsEmpty());
  EXPECT_TRUE(std::isnan(tensor.values.data()[0]));
}

TEST(WriteNpy, WritesTheBytesThatNumpyWrites) {
  const TempFolder folder;
  const auto header = [](const std::string& shape, const std::string& descr = "<f4") {
    const std::string dict = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
    return "\x93NUMPY\x01" + std::string("\0\x76\0", 3) + dict + std::string(117 - dict.size(), ' ') + '\n';
  };
  write_npy(folder.file("a"), std::vector<Index>{}, std::vector<float>{1});
  write_npy(folder.file("b"), std::vector<Index>{2}, std::vector<float>{1, 2});
  write_npy(folder.file("c"), std::vector<Index>{1, 2}, std::vector<float>{1, 2});
  write_npy(folder.file("d"), std::vector<Index>{2, 0}, std::vector<float>{});
  EXPECT_EQ(read_all(folder.file("a")), header("()") + little_endian(1.f));
  EXPECT_EQ(read_all(folder.file("b")), header("(2,)") + little_endian(std::vector<float>{1, 2}));
  EXPECT_EQ(read_all(folder.file("c")), header("(1, 2)") + little_endian(std::vector<float>{1, 2}));
  EXPECT_EQ(read_all(folder.file("d")), header("(2, 0)"));
  write_npy(folder.file("e"), std::vector<Index>{2}, std::vector<double>{1, 0.1});
  EXPECT_EQ(read_all(folder.file("e")), header("(2,)", "<f8") + little_endian(std::vector<double>{1, 0.1}));
}

TEST(WriteNpy, BeginsTheValuesAtAMultipleOf64ForLongHeadersToo) {
  const TempFolder folder;
  for (std::size_t rank = 0; rank <= 64; ++rank) {
    write_npy(folder.file("x"), std::vector<Index>(rank, 1), std::vector<float>{5});
    const std::string file = read_all(folder.file("x"));
    EXPECT_EQ(file.size() % 64, 4u) << "rank " << rank;
    EXPECT_EQ(file[file.size() - 5], '\n') << "rank " << rank;
  }
}

TEST(WriteNpy, RefusesShapesThatDoNotFitTheValues) {
  const TempFolder folder;
  const std::vector<float> values(6);
  for (const std::vector<Index>& shape :
       {std::vector<Index>{5}, {}, {2, 2}, {-2, -3}, {Index{1} << 32, Index{1} << 32}, std::vector<Index>(65, 1)}) {
    EXPECT_THAT(error_of<std::invalid_argument>([&] { write_npy(folder.file("x"), shape, values); }).what(),
                HasSubstr("expected a shape of 6 values"));
  }
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(WriteNpy, WritesIntoAFileThatTheCallerCommits) {
  const TempFolder folder;
  AtomicFile file(folder.file("x"));
  write_npy(file, std::vector<Index>{2}, std::vector<float>{1, 2});
  EXPECT_FALSE(std::filesystem::exists(folder.file("x")));
  file.commit();
  EXPECT_THAT(list(NpyFile(folder.file("x")).to_f32()), ElementsAre(1, 2));
}

TEST(WriteNpy, LeavesNothingBehindWhenItFails) {
  const TempFolder folder;
  EXPECT_EQ(error_of<IoError>([&] { write_npy(folder.file(""), {}, std::vector<float>{1}); }).code().value(), EISDIR);
  EXPECT_EQ(error_of<IoError>([&] { write_npy("/dev/full", {}, std::vector<float>{1}); }).code().value(), ENOSPC);
  EXPECT_THAT(folder.names(), IsEmpty());
}

}  // namespace
}  // namespace qkv
