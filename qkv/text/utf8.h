#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/index.h"

namespace qkv {

/// Bytes [begin, end) of a text.
struct ByteRange {
  Index begin = 0;  ///< the first byte
  Index end = 0;    ///< one past the last

  /// Field by field.
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// A character and the bytes of the input it comes from. Normalisation changes the character, never what it came from.
struct AlignedChar {
  char32_t code_point = 0;  ///< in Unicode
  ByteRange source;         ///< in the input

  /// Field by field.
  friend bool operator==(const AlignedChar&, const AlignedChar&) = default;
};

/// A text that remembers where it came from.
using AlignedText = std::vector<AlignedChar>;

/// The characters of a UTF-8 text, each with its own bytes as source. NUL bytes are characters like any other.
/// Errors: std::invalid_argument "function: text: got byte 0xNN at offset K, expected valid UTF-8", where K is the
/// first
///   byte of the first broken character (overlong forms, surrogates and values above U+10FFFF are broken too).
AlignedText decode_utf8(std::string_view text, std::string_view function);

/// Where the first byte is that no UTF-8 character begins with or continues rightly, or nothing in a valid text.
std::optional<Index> find_invalid_utf8(std::string_view text);

/// Appends the one to four bytes of a code point, which has to be a valid one, to `out`.
void append_utf8(char32_t code_point, std::string& out);

}  // namespace qkv
