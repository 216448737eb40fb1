#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include "qkv/core/error.h"
#include "qkv/core/tensor_values.h"

// What the fuzz targets share. A target has the one function below; libFuzzer calls it with inputs that it makes up
// (make fuzz), replay.cc with those in corpus/ (make test).
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace qkv::fuzz {

/// Ends the process, so that the input is kept, unless what has to hold holds.
inline void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what.c_str());
  std::abort();
}

/// A file in memory, for readers that take a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(::memfd_create("input", MFD_CLOEXEC)) {
    require(descriptor_ >= 0, "memfd_create");
    require(::write(descriptor_, bytes.data(), bytes.size()) == static_cast<::ssize_t>(bytes.size()), "write");
    path_ = "/proc/self/fd/" + std::to_string(descriptor_);
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  int descriptor_;
  std::string path_;
};

/// Where a target may write a file: in memory where the machine has a folder for that, for writers sync to the disk.
class OutputFile {
 public:
  OutputFile() {
    std::error_code ignored;
    const std::filesystem::path memory = "/dev/shm";
    const auto folder = std::filesystem::is_directory(memory, ignored) && ::access("/dev/shm", W_OK) == 0
                            ? memory
                            : std::filesystem::temp_directory_path();
    path_ = (folder / ("qkv_fuzz_" + std::to_string(::getpid()))).string();
  }
  ~OutputFile() { ::unlink(path_.c_str()); }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A message to the user is one line of ASCII, whatever is in the file.
inline void check_message(std::string_view message) {
  require(!message.empty() && std::ranges::all_of(message, [](char c) { return c >= ' ' && c <= '~'; }),
          "a message is one line of ASCII: " + std::string(message));
}

/// How a reader refuses a file of `size` bytes.
inline void check_refusal(const FormatError& error, const std::string& path, std::size_t size) {
  check_message(error.what());
  require(error.path() == path, "a refusal names its file: " + std::string(error.what()));
  require(error.byte_offset() <= size, "a refusal names a byte of its file: " + std::string(error.what()));
}

inline std::string_view to_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// What reads as bools as well as as numbers is the same as both; what is no bool is refused.
template <class Load>
void check_bools(const std::optional<TensorValues<Index>>& numbers, const Load& load) {
  try {
    const TensorValues<bool> bools = load();
    for (Index i = 0; numbers && i < bools.values.size(); ++i)
      require(numbers->values.data()[i] == (bools.values.data()[i] ? 1 : 0), "a bool is 0 or 1");
  } catch (const std::invalid_argument& error) {
    check_message(error.what());
  }
}

}  // namespace qkv::fuzz
