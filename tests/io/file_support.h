#pragma once

#include <stdlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace qkv::testing {

/// A folder of its own for one test, removed with all that is in it.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "qkv_io_test_XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  /// Writes a file and returns its path.
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(file(name), std::ios::binary) << content;
    return file(name);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) result.push_back(entry.path().filename());
    return result;
  }

 private:
  std::filesystem::path path_;
};

/// A number as the bytes that a little-endian file holds.
template <class T>
std::string little_endian(T value) {
  auto bytes = std::bit_cast<std::array<char, sizeof(T)>>(value);
  if (std::endian::native == std::endian::big) std::reverse(bytes.begin(), bytes.end());
  return {bytes.begin(), bytes.end()};
}

template <class T>
std::string little_endian(const std::vector<T>& values) {
  std::string bytes;
  for (const T& value : values) bytes += little_endian(value);
  return bytes;
}

/// A safetensors file from the text of its header and its data.
inline std::string safetensors(const std::string& header, const std::string& data = "") {
  return little_endian(static_cast<std::uint64_t>(header.size())) + header + data;
}

/// A .npy file of a version (1 to 3) from the text of its header and its data.
inline std::string npy(const std::string& header, const std::string& data = "", char version = 1) {
  const auto size = header.size();
  return std::string("\x93NUMPY") + version + '\0' +
         (version == 1 ? little_endian(static_cast<std::uint16_t>(size))
                       : little_endian(static_cast<std::uint32_t>(size))) +
         header + data;
}

/// The text of a .npy header, as NumPy writes it but for the padding.
inline std::string npy_dict(const std::string& descr, const std::string& shape, bool fortran_order = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran_order ? "True" : "False") + ", 'shape': " + shape +
         ", }\n";
}

/// A copy without the NUL that ends every std::string: a sanitizer sees a read of one byte too many.
inline std::vector<std::byte> exact_bytes(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// What a call throws. Fails the test, and throws on, if it throws nothing or something else.
template <class Error, class Call>
Error error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  throw std::logic_error("no error, where one was expected");
}

inline std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace qkv::testing
