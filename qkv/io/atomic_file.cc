#include "qkv/io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <tuple>
#include <utility>

#include "qkv/core/error.h"

namespace qkv {

namespace {

constexpr unsigned kPermissionBits = 07777;
constexpr unsigned kNewFile = 0666;  // the process's umask takes its share

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string resolve_links(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr), &std::free);
  if (!resolved) throw IoError(path, "write", errno);
  return resolved.get();
}

// The rename itself reaches the disk with its folder. The new file is in place whatever comes of this.
void sync_folder(const std::string& folder) {
  const int number = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (number < 0) return;
  ::fsync(number);
  ::close(number);
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path) : path_(path), target_(path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno != ENOENT || path.empty()) throw IoError(path, "write", errno);
    open_temporary(std::nullopt);
    return;
  }
  if (S_ISLNK(status.st_mode) && ::stat(path.c_str(), &status) != 0) throw IoError(path, "write", errno);
  if (S_ISDIR(status.st_mode)) throw IoError(path, "write", EISDIR);
  if (!S_ISREG(status.st_mode)) {
    file_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (file_ < 0) throw IoError(path, "write", errno);
    return;
  }
  // A rename asks the folder for permission, not the file that it replaces.
  if (::access(path.c_str(), W_OK) != 0) throw IoError(path, "write", errno);
  target_ = resolve_links(path);
  open_temporary(status.st_mode & kPermissionBits);
}

AtomicFile::~AtomicFile() {
  if (file_ >= 0) ::close(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::open_temporary(std::optional<unsigned> permissions) {
  // The name does not grow with the target's, which may be as long as the file system allows.
  const std::string prefix = folder_of(target_) + "/.qkv-" + std::to_string(::getpid()) + "-";
  for (int attempt = 0; file_ < 0; ++attempt) {
    const std::string name = prefix + std::to_string(attempt) + ".tmp";
    file_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kNewFile);
    if (file_ >= 0) {
      temporary_ = name;
    } else if (errno != EEXIST) {
      throw IoError(path_, "write", errno);
    }
  }
  // Where the file system has no permissions this fails; the content matters more.
  if (permissions) std::ignore = ::fchmod(file_, *permissions);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  assert(file_ >= 0);
  while (!bytes.empty()) {
    const ::ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      throw IoError(path_, "write", errno);
    }
  }
}

void AtomicFile::finish() {
  assert(file_ >= 0);
  // EINVAL, ENOTSUP: a device or file system that knows no sync.
  if (::fsync(file_) != 0 && errno != EINVAL && errno != ENOTSUP) throw IoError(path_, "write", errno);
  if (::close(std::exchange(file_, -1)) != 0 && errno != EINTR) throw IoError(path_, "write", errno);
}

void AtomicFile::commit() {
  if (file_ >= 0) finish();
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) throw IoError(path_, "write", errno);
  temporary_.clear();
  sync_folder(folder_of(target_));
}

}  // namespace qkv
