#include "qkv/io/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <type_traits>
#include <utility>

#include "qkv/core/error.h"
#include "tests/io/file_support.h"

namespace qkv {
namespace {

using testing::error_of;
using testing::TempFolder;

int error_number_of(const std::string& path) {
  return error_of<IoError>([&] { MappedFile file(path); }).code().value();
}

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(MappedFile, HoldsTheBytesOfTheFile) {
  const TempFolder folder;
  const MappedFile file(folder.write("x", std::string("a\0b\xff", 4)));
  EXPECT_EQ(text_of(file), std::string("a\0b\xff", 4));
  EXPECT_EQ(file.path(), folder.file("x"));
}

TEST(MappedFile, OfAnEmptyFileIsEmpty) {
  const TempFolder folder;
  EXPECT_TRUE(MappedFile(folder.write("x", "")).bytes().empty());
}

TEST(MappedFile, MovesAndStaysValid) {
  static_assert(!std::is_copy_constructible_v<MappedFile> && !std::is_copy_assignable_v<MappedFile>);
  const TempFolder folder;
  MappedFile first(folder.write("x", "first"));
  MappedFile second(folder.write("y", "second"));
  second = std::move(first);
  const MappedFile third(std::move(second));
  EXPECT_EQ(text_of(third), "first");
  EXPECT_TRUE(second.bytes().empty());  // NOLINT(bugprone-use-after-move)
}

TEST(MappedFile, KeepsItsContentWhenThePathIsReplaced) {
  const TempFolder folder;
  const MappedFile file(folder.write("x", "old"));
  folder.write("y", "new!");
  std::filesystem::rename(folder.file("y"), folder.file("x"));
  EXPECT_EQ(text_of(file), "old");
}

TEST(MappedFile, NamesTheSystemsErrorOfAMissingFile) {
  const TempFolder folder;
  const auto error = error_of<IoError>([&] { MappedFile file(folder.file("missing")); });
  EXPECT_EQ(error.code().value(), ENOENT);
  EXPECT_EQ(error.path(), folder.file("missing"));
  EXPECT_NE(std::string(error.what()).find(folder.file("missing")), std::string::npos);
}

TEST(MappedFile, RefusesADirectory) {
  const TempFolder folder;
  EXPECT_EQ(error_number_of(folder.file("")), EISDIR);
}

TEST(MappedFile, RefusesDevices) {
  EXPECT_EQ(error_number_of("/dev/null"), ENOTSUP);
  EXPECT_EQ(error_number_of("/dev/zero"), ENOTSUP);
}

TEST(MappedFile, RefusesAPipeWithoutWaitingForItsWriter) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  EXPECT_EQ(error_number_of(folder.file("pipe")), ENOTSUP);
}

}  // namespace
}  // namespace qkv
