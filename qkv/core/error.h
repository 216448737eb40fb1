#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <system_error>

namespace qkv {

/// A file that is not what its format says. what() is "path: byte N: what is wrong: got X, expected Y".
class FormatError : public std::runtime_error {
 public:
  /// `problem` is what stands behind the offset: "what is wrong: got X, expected Y".
  FormatError(const std::string& path, std::uint64_t byte_offset, const std::string& problem);

  /// The file, as the caller named it.
  const std::string& path() const { return path_; }
  /// Where in the file the problem is.
  std::uint64_t byte_offset() const { return byte_offset_; }

 private:
  std::string path_;
  std::uint64_t byte_offset_;
};

/// A file that cannot be opened, read or written. code() is the system's error.
class IoError : public std::system_error {
 public:
  /// `error_number` is an errno value; `action` a verb phrase: "open", "write".
  IoError(const std::string& path, const std::string& action, int error_number);

  /// The file, as the caller named it.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace qkv
