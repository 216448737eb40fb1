#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace qkv {

/// Writes a file whole or not at all: the path holds its old content until commit() returns, and nothing is left
/// behind if that never happens, be it for an error, a full disk or an exception of the caller.
///
/// The bytes go to a hidden file in the same folder, which commit() brings to the disk and renames.
/// Edge: a file that is replaced keeps its permissions; a symbolic link is followed. A device or pipe (/dev/stdout)
///   cannot be replaced, so it is written directly.
/// Errors: IoError, as early as possible: the constructor already refuses a directory, a missing or unwritable folder,
///   and a file without write permission.
class AtomicFile {
 public:
  /// Opens the hidden file.
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. Errors: IoError; the file is then good for nothing but its destructor.
  void write(std::span<const std::byte> bytes);

  /// Brings what was written to the disk; nothing can be appended any more. Of several files that shall appear
  /// together, finish all before the first commit: a commit after it only renames. Errors: IoError.
  void finish();

  /// The last call, once: finishes if that was not done, and the path now holds what was written. Errors: IoError.
  void commit();

 private:
  void open_temporary(std::optional<unsigned> permissions);

  std::string path_;       // as the caller knows it, for messages
  std::string target_;     // what it names, links resolved
  std::string temporary_;  // empty: nothing to remove
  int file_ = -1;
};

}  // namespace qkv
