#include "qkv/io/safetensors_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "qkv/core/error.h"
#include "qkv/io/safetensors.h"
#include "tests/io/file_support.h"

namespace qkv {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::read_all;
using testing::TempFolder;

const std::vector<float> kSix{1, 2, 3, 4, 5, 6};

std::vector<std::uint32_t> bits(const TensorValues<float>& tensor) {
  std::vector<std::uint32_t> result(static_cast<std::size_t>(tensor.values.size()));
  if (!result.empty()) std::memcpy(result.data(), tensor.values.data(), 4 * result.size());
  return result;
}

// Writes nothing to a folder of its own, and says why.
std::string refusal(const std::vector<SafetensorsEntry>& tensors, const std::map<std::string, std::string>& metadata) {
  const TempFolder folder;
  const auto error =
      error_of<std::invalid_argument>([&] { write_safetensors(folder.file("x.safetensors"), tensors, metadata); });
  EXPECT_THAT(folder.names(), IsEmpty());
  return error.what();
}

std::string refusal_of_name(const std::string& name) {
  return refusal({{.name = name, .shape = {2, 3}, .values = kSix}}, {});
}

// Both files were written by the package safetensors (tests/goldens). The first has names with quotes, line ends, NUL
// and emoji, rank 0, sizes of zero and NaN of several payloads.
TEST(WriteSafetensors, WritesTheBytesOfTheReferenceLibrary) {
  for (const std::string name : {"/odd_names.safetensors", "/toy_bert/model.safetensors"}) {
    const std::string original = QKV_TEST_DATA + name;
    const SafetensorsFile file(original);
    const TempFolder folder;
    const std::string copy = folder.file("copy.safetensors");
    write_safetensors(copy, file.load_state_dict(), file.metadata());
    EXPECT_EQ(read_all(copy), read_all(original)) << name;
  }
}

TEST(WriteSafetensors, ReadsBackBitByBitUnderEveryName) {
  const std::vector<std::uint32_t> payloads{0x7fc00001, 0x7f800001, 0xffc12345, 0x80000000, 1, 0xff800000};
  std::vector<float> values(payloads.size());
  std::memcpy(values.data(), payloads.data(), 4 * values.size());
  const std::vector<std::string> names{
      "", "\"'\\", "a\nb", std::string("a\0b", 3), "\x1b[31m\x7f", "\xf0\x9f\x98\x80", "__metadata", "dtype"};
  std::vector<SafetensorsEntry> tensors;
  for (const auto& name : names) tensors.push_back({.name = name, .shape = {3, 2}, .values = values});
  const TempFolder folder;
  write_safetensors(folder.file("x"), tensors, {{"key \n", "NaN"}, {"", "\xc3\xa9"}});

  const SafetensorsFile file(folder.file("x"));
  EXPECT_EQ(file.tensors().size(), names.size());
  for (const auto& name : names) {
    const auto read = file.load_f32(name);
    EXPECT_THAT(read.shape, ElementsAre(3, 2));
    EXPECT_EQ(bits(read), payloads);
  }
  EXPECT_THAT(file.metadata(), ElementsAre(Pair("", "\xc3\xa9"), Pair("key \n", "NaN")));
}

TEST(WriteSafetensors, WritesRankZeroSizeZeroAndNoTensorsAtAll) {
  const TempFolder folder;
  write_safetensors(folder.file("x"),
                    std::vector<SafetensorsEntry>{{.name = "empty", .shape = {4, 0}, .values = {}},
                                                  {.name = "scalar", .shape = {}, .values = std::span(kSix).first(1)}});
  const SafetensorsFile file(folder.file("x"));
  EXPECT_THAT(file.load_f32("empty").shape, ElementsAre(4, 0));
  EXPECT_THAT(file.load_f32("scalar").shape, IsEmpty());
  EXPECT_EQ(file.load_f32("scalar").values.data()[0], 1);
  EXPECT_THAT(file.metadata(), IsEmpty());

  write_safetensors(folder.file("none"), StateDict{});
  EXPECT_THAT(SafetensorsFile(folder.file("none")).tensors(), IsEmpty());
}

TEST(WriteSafetensors, SortsByNameAndPutsTheDataAtAMultipleOfEight) {
  const TempFolder folder;
  for (std::size_t length = 1; length <= 8; ++length) {
    const std::string path = folder.file("x");
    write_safetensors(path, std::vector<SafetensorsEntry>{
                                {.name = std::string(length, 'b'), .shape = {2, 3}, .values = kSix},
                                {.name = "a", .shape = {6}, .values = kSix},
                            });
    const SafetensorsFile file(path);
    EXPECT_THAT(file.names(), ElementsAre("a", std::string(length, 'b')));
    EXPECT_EQ(file.info("a").begin % 8, 0);
  }
}

// https://github.com/safetensors/safetensors/issues/849
TEST(WriteSafetensors, RefusesTheReservedNameBeforeAnyFileAppears) {
  EXPECT_THAT(refusal_of_name("__metadata__"),
              HasSubstr("write_safetensors: name of a tensor: got \"__metadata__\", expected any but"));
}

TEST(WriteSafetensors, RefusesNamesThatAreNotUtf8BeforeAnyFileAppears) {
  EXPECT_THAT(refusal_of_name("caf\xe9"), HasSubstr("name of a tensor: got \"caf\\xe9\", expected valid UTF-8"));
  EXPECT_THAT(refusal_of_name("\xed\xa0\x80"), HasSubstr("expected valid UTF-8"));  // half a surrogate pair
  EXPECT_THAT(refusal_of_name("\xc0\x80"), HasSubstr("expected valid UTF-8"));      // NUL in two bytes
}

TEST(WriteSafetensors, RefusesMetadataThatIsNotUtf8BeforeAnyFileAppears) {
  EXPECT_THAT(refusal({}, {{"key", "\xff"}}), HasSubstr("metadata \"key\": got \"\\xff\", expected valid UTF-8"));
  EXPECT_THAT(refusal({}, {{"\xff", ""}}), HasSubstr("key of the metadata: got \"\\xff\", expected valid UTF-8"));
}

TEST(WriteSafetensors, RefusesANameGivenTwiceBeforeAnyFileAppears) {
  const SafetensorsEntry w{.name = "w", .shape = {6}, .values = kSix}, x{.name = "x", .shape = {6}, .values = kSix};
  EXPECT_THAT(refusal({w, x, w}, {}), HasSubstr("name of a tensor: got \"w\" twice, expected each name once"));
}

TEST(WriteSafetensors, RefusesAShapeThatIsNotThatOfTheValuesBeforeAnyFileAppears) {
  const auto refusal_of_shape = [](const std::vector<Index>& shape) {
    return refusal({{.name = "w", .shape = shape, .values = kSix}}, {});
  };
  EXPECT_THAT(refusal_of_shape({2, 4}), HasSubstr("shape of \"w\": got [2, 4], expected a shape of 6 values"));
  EXPECT_THAT(refusal_of_shape({}), HasSubstr("got [], expected a shape of 6 values"));
  EXPECT_THAT(refusal_of_shape({-2, -3}), HasSubstr("got [-2, -3], expected a shape of 6 values"));
  EXPECT_THAT(refusal_of_shape({Index{1} << 62, 6}), HasSubstr("expected a shape of 6 values"));
  std::vector<Index> long_shape(kMaxRank + 1, 1);
  long_shape[0] = 6;
  EXPECT_THAT(refusal_of_shape(long_shape), HasSubstr("expected a shape of 6 values"));
}

TEST(WriteSafetensors, RefusesAHeaderThatNoReaderWouldTake) {
  const std::string text(100'000'000, 'x');
  EXPECT_THAT(refusal({}, {{"key", text}}), HasSubstr("got 100000032, expected at most 100000000"));
}

TEST(WriteSafetensors, LeavesTheOldFileWhereItFails) {
  const TempFolder folder;
  const std::string path = folder.write("x", "old");
  const std::vector<SafetensorsEntry> wrong{{.name = "w", .shape = {5}, .values = kSix}};
  EXPECT_THROW(write_safetensors(path, wrong), std::invalid_argument);
  EXPECT_EQ(read_all(path), "old");
  EXPECT_EQ(error_of<IoError>([&] { write_safetensors(folder.file("no/x"), StateDict{}); }).code().value(), ENOENT);
}

TEST(WriteSafetensors, WritesIntoAFileThatTheCallerCommits) {
  const TempFolder folder;
  const std::string path = folder.file("x");
  {
    AtomicFile file(path);
    write_safetensors(file, std::vector<SafetensorsEntry>{{.name = "w", .shape = {6}, .values = kSix}});
    EXPECT_FALSE(std::filesystem::exists(path));
    file.commit();
  }
  EXPECT_THAT(SafetensorsFile(path).names(), ElementsAre("w"));
}

}  // namespace
}  // namespace qkv
