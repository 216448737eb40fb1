#include "qkv/text/utf8.h"

#include <utf8proc.h>

#include <iomanip>
#include <sstream>

#include "qkv/core/check.h"

namespace qkv {
namespace {

std::string describe_byte(unsigned char byte, Index offset) {
  std::ostringstream text;
  text << "byte 0x" << std::uppercase << std::hex << std::setw(2) << std::setfill('0') << static_cast<int>(byte)
       << std::dec << " at offset " << offset;
  return text.str();
}

// The character at `begin`, or nothing where the bytes are not valid.
std::optional<AlignedChar> decode_at(std::string_view text, Index begin) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  utf8proc_int32_t code_point = 0;
  const Index length = utf8proc_iterate(bytes + begin, static_cast<Index>(text.size()) - begin, &code_point);
  if (length <= 0) return std::nullopt;
  return AlignedChar{static_cast<char32_t>(code_point), {begin, begin + length}};
}

}  // namespace

AlignedText decode_utf8(std::string_view text, std::string_view function) {
  AlignedText characters;
  characters.reserve(text.size());
  for (Index begin = 0; begin < static_cast<Index>(text.size()); begin = characters.back().source.end) {
    const auto character = decode_at(text, begin);
    if (!character) {
      const auto byte = static_cast<unsigned char>(text[static_cast<std::size_t>(begin)]);
      throw_invalid(function, "text", describe_byte(byte, begin), "valid UTF-8");
    }
    characters.push_back(*character);
  }
  return characters;
}

std::optional<Index> find_invalid_utf8(std::string_view text) {
  for (Index begin = 0; begin < static_cast<Index>(text.size());) {
    const auto character = decode_at(text, begin);
    if (!character) return begin;
    begin = character->source.end;
  }
  return std::nullopt;
}

void append_utf8(char32_t code_point, std::string& out) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
}

}  // namespace qkv
