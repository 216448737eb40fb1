#include "qkv/core/error.h"

namespace qkv {

FormatError::FormatError(const std::string& path, std::uint64_t byte_offset, const std::string& problem)
    : std::runtime_error(path + ": byte " + std::to_string(byte_offset) + ": " + problem),
      path_(path),
      byte_offset_(byte_offset) {}

IoError::IoError(const std::string& path, const std::string& action, int error_number)
    : std::system_error(error_number, std::generic_category(), "cannot " + action + " " + path), path_(path) {}

}  // namespace qkv
