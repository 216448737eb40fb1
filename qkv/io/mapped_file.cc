#include "qkv/io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "qkv/core/error.h"

namespace qkv {

namespace {

struct Descriptor {
  int number;
  ~Descriptor() { ::close(number); }
};

}  // namespace

void MappedFile::Unmap::operator()(const std::byte* address) const {
  ::munmap(const_cast<std::byte*>(address), size);
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  // O_NONBLOCK: opening a named pipe must not wait for its writer. It changes nothing for regular files.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (file.number < 0) throw IoError(path, "open", errno);
  struct stat status {};
  if (::fstat(file.number, &status) != 0) throw IoError(path, "read", errno);
  if (S_ISDIR(status.st_mode)) throw IoError(path, "read", EISDIR);
  if (!S_ISREG(status.st_mode)) throw IoError(path, "map the special file", ENOTSUP);
  if (status.st_size == 0) return;  // mmap refuses a length of 0

  const auto size = static_cast<std::size_t>(status.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (address == MAP_FAILED) throw IoError(path, "map", errno);
  map_ = {static_cast<const std::byte*>(address), Unmap{size}};
}

}  // namespace qkv
