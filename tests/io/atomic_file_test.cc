#include "qkv/io/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "qkv/core/error.h"
#include "tests/io/file_support.h"

namespace qkv {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::IsEmpty;
using testing::read_all;
using testing::TempFolder;
using ::testing::UnorderedElementsAre;

void write_text(AtomicFile& file, const std::string& text) {
  file.write(std::as_bytes(std::span(text)));
}

void write_whole(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  write_text(file, text);
  file.commit();
}

int error_number_of(const std::string& path) {
  return error_of<IoError>([&] { write_whole(path, "x"); }).code().value();
}

mode_t permissions(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 07777;
}

// While it lives no file may grow beyond the limit: the nearest thing to a full disk that needs no disk of its own.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  void (*old_handler_)(int);
  rlimit old_{};
};

TEST(AtomicFile, AppearsWithAllThatWasWritten) {
  const TempFolder folder;
  AtomicFile file(folder.file("x"));
  write_text(file, "one ");
  write_text(file, "two");
  EXPECT_FALSE(std::filesystem::exists(folder.file("x")));
  file.commit();
  EXPECT_EQ(read_all(folder.file("x")), "one two");
  EXPECT_THAT(folder.names(), ElementsAre("x"));
}

TEST(AtomicFile, MayBeEmpty) {
  const TempFolder folder;
  write_whole(folder.file("x"), "");
  EXPECT_EQ(std::filesystem::file_size(folder.file("x")), 0u);
}

TEST(AtomicFile, ReplacesAFileOnlyAtCommit) {
  const TempFolder folder;
  const auto path = folder.write("x", "old");
  AtomicFile file(path);
  write_text(file, "new");
  EXPECT_EQ(read_all(path), "old");
  file.commit();
  EXPECT_EQ(read_all(path), "new");
  EXPECT_THAT(folder.names(), ElementsAre("x"));
}

TEST(AtomicFile, FinishedWithoutCommitLeavesTheOldFile) {
  const TempFolder folder;
  const auto path = folder.write("x", "old");
  {
    AtomicFile file(path);
    write_text(file, "new");
    file.finish();
  }
  EXPECT_EQ(read_all(path), "old");
  EXPECT_THAT(folder.names(), ElementsAre("x"));
}

TEST(AtomicFile, MayBeFinishedBeforeTheCommit) {
  const TempFolder folder;
  AtomicFile file(folder.file("x"));
  write_text(file, "text");
  file.finish();
  EXPECT_FALSE(std::filesystem::exists(folder.file("x")));
  file.commit();
  EXPECT_EQ(read_all(folder.file("x")), "text");
}

TEST(AtomicFile, LeavesNothingBehindWithoutCommit) {
  const TempFolder folder;
  { AtomicFile file(folder.file("x")); }
  EXPECT_THAT(folder.names(), IsEmpty());
}

TEST(AtomicFile, KeepsTheOldFileWhenTheCallerThrows) {
  const TempFolder folder;
  const auto path = folder.write("x", "old");
  EXPECT_THROW(
      {
        AtomicFile file(path);
        write_text(file, "half");
        throw std::runtime_error("caller");
      },
      std::runtime_error);
  EXPECT_EQ(read_all(path), "old");
  EXPECT_THAT(folder.names(), ElementsAre("x"));
}

TEST(AtomicFile, LeavesNothingBehindWhenTheDiskIsFull) {
  const TempFolder folder;
  const auto path = folder.write("x", "old");
  const FileSizeLimit limit(1000);
  EXPECT_EQ(error_of<IoError>([&] { write_whole(path, std::string(5000, 'n')); }).code().value(), EFBIG);
  EXPECT_EQ(read_all(path), "old");
  EXPECT_THAT(folder.names(), ElementsAre("x"));
}

TEST(AtomicFile, NamesTheErrorOfADeviceWithoutSpace) {
  EXPECT_EQ(error_number_of("/dev/full"), ENOSPC);
}

TEST(AtomicFile, WritesToADeviceInsteadOfReplacingIt) {
  write_whole("/dev/null", "gone");
  struct stat status {};
  ASSERT_EQ(::stat("/dev/null", &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
}

TEST(AtomicFile, TwoOfThemInOneFolderDoNotMeet) {
  const TempFolder folder;
  AtomicFile first(folder.file("a")), second(folder.file("b"));
  write_text(first, "1");
  write_text(second, "2");
  second.commit();
  first.commit();
  EXPECT_EQ(read_all(folder.file("a")), "1");
  EXPECT_EQ(read_all(folder.file("b")), "2");
}

TEST(AtomicFile, GivesANewFileThePermissionsOfTheUmask) {
  const TempFolder folder;
  const mode_t old = ::umask(027);
  write_whole(folder.file("x"), "x");
  ::umask(old);
  EXPECT_EQ(permissions(folder.file("x")), 0640u);
}

TEST(AtomicFile, KeepsThePermissionsOfTheFileItReplaces) {
  const TempFolder folder;
  const auto path = folder.write("x", "old");
  for (const mode_t mode : {0600u, 0666u}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    write_whole(path, "new");
    EXPECT_EQ(permissions(path), mode);
  }
}

TEST(AtomicFile, FollowsASymbolicLink) {
  const TempFolder folder;
  folder.write("real", "old");
  std::filesystem::create_symlink("real", folder.file("link"));
  write_whole(folder.file("link"), "new");
  EXPECT_EQ(read_all(folder.file("real")), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file("link")));
}

TEST(AtomicFile, RefusesALinkToNothing) {
  const TempFolder folder;
  std::filesystem::create_symlink("nowhere", folder.file("link"));
  EXPECT_EQ(error_number_of(folder.file("link")), ENOENT);
  EXPECT_THAT(folder.names(), ElementsAre("link"));
}

TEST(AtomicFile, TakesTheLongestNameThatTheFileSystemAllows) {
  const TempFolder folder;
  const std::string name(255, 'n');
  write_whole(folder.file(name), "x");
  EXPECT_THAT(folder.names(), ElementsAre(name));
  EXPECT_EQ(error_number_of(folder.file(name + "n")), ENAMETOOLONG);
  EXPECT_THAT(folder.names(), ElementsAre(name));
}

TEST(AtomicFile, RefusesADirectoryAtOnce) {
  const TempFolder folder;
  std::filesystem::create_directory(folder.file("d"));
  EXPECT_EQ(error_of<IoError>([&] { AtomicFile file(folder.file("d")); }).code().value(), EISDIR);
  EXPECT_THAT(folder.names(), ElementsAre("d"));
}

TEST(AtomicFile, RefusesAMissingFolderAtOnce) {
  const TempFolder folder;
  const auto error = error_of<IoError>([&] { AtomicFile file(folder.file("missing/x")); });
  EXPECT_EQ(error.code().value(), ENOENT);
  EXPECT_EQ(error.path(), folder.file("missing/x"));
}

TEST(AtomicFile, RefusesAFileAsFolder) {
  const TempFolder folder;
  folder.write("file", "");
  EXPECT_EQ(error_number_of(folder.file("file/x")), ENOTDIR);
}

TEST(AtomicFile, RefusesAnEmptyPath) {
  EXPECT_EQ(error_number_of(""), ENOENT);
}

TEST(AtomicFile, RefusesFoldersAndFilesWithoutWritePermission) {
  if (::geteuid() == 0) GTEST_SKIP() << "the superuser may write everywhere";
  const TempFolder folder;
  const auto path = folder.write("x", "old");
  ASSERT_EQ(::chmod(path.c_str(), 0400), 0);
  EXPECT_EQ(error_number_of(path), EACCES);
  ASSERT_EQ(::chmod(folder.file("").c_str(), 0500), 0);
  EXPECT_EQ(error_number_of(folder.file("y")), EACCES);
  ASSERT_EQ(::chmod(folder.file("").c_str(), 0700), 0);
  EXPECT_EQ(read_all(path), "old");
  EXPECT_THAT(folder.names(), UnorderedElementsAre("x"));
}

}  // namespace
}  // namespace qkv
