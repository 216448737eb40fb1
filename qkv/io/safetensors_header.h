#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/index.h"
#include "qkv/io/convert.h"

namespace qkv {

/// The name in a header that is no tensor's: free text is kept there.
inline constexpr const char* kSafetensorsMetadata = "__metadata__";

/// Bytes that a header has at most: the reference library's limit.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

/// What the header of a safetensors file says of one tensor.
struct SafetensorsInfo {
  std::string name;          ///< Unique in its file.
  std::string dtype;         ///< As the format spells it: "F32", "BF16", "I64", ...
  std::vector<Index> shape;  ///< The length of every axis; empty: one value.
  Index begin = 0;           ///< First byte, counted from the start of the file.
  Index end = 0;             ///< One past the last byte.
};

/// What the header of a safetensors file says.
struct SafetensorsHeader {
  std::vector<SafetensorsInfo> tensors;         ///< In the order of the data.
  std::map<std::string, std::string> metadata;  ///< The free text of __metadata__.
};

/// Reads and checks the header of a whole file against every rule that class SafetensorsFile lists.
/// Errors: FormatError.
/// Cost: O(length of the header) time and memory; nothing is allocated by a number that the file only claims.
SafetensorsHeader parse_safetensors_header(const std::string& path, std::span<const std::byte> file);

/// The format of a dtype that qkv can read as float (F16, BF16, F32, F64), else nothing.
std::optional<FloatFormat> safetensors_float_format(std::string_view dtype);

/// The format of a dtype that qkv can read as whole numbers (BOOL, I8 to I64, U8 to U64), else nothing.
std::optional<IntegerFormat> safetensors_integer_format(std::string_view dtype);

}  // namespace qkv
