#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace qkv {

/// A regular file, mapped read-only into memory: opening reads nothing, and pages come in when they are touched. Moves,
/// never copies. Edge: an empty file gives empty bytes(). A file that another process cuts short while it is mapped
/// ends this
///   process with SIGBUS, as every memory map does; files replaced by rename are safe.
/// Errors: IoError if the file is missing, unreadable, a directory (EISDIR) or special (a pipe, a device: ENOTSUP).
///   Opening never waits, not even for a named pipe without a writer.
class MappedFile {
 public:
  /// Opens and maps the file.
  explicit MappedFile(const std::string& path);

  /// The file, as the caller named it.
  const std::string& path() const { return path_; }
  /// The whole file. Valid as long as this object, or the one it was moved into.
  std::span<const std::byte> bytes() const { return {map_.get(), map_ ? map_.get_deleter().size : 0}; }

 private:
  struct Unmap {
    std::size_t size;
    void operator()(const std::byte* address) const;
  };

  std::string path_;
  std::unique_ptr<const std::byte[], Unmap> map_;
};

}  // namespace qkv
