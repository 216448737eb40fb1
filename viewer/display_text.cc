#include "viewer/display_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace qkv::viewer {
namespace {

constexpr utf8proc_int32_t kVariationSelector16 = 0xFE0F, kZeroWidthNonJoiner = 0x200C, kZeroWidthJoiner = 0x200D;

struct CodePoint {
  utf8proc_int32_t value;  // negative: not UTF-8
  std::string_view bytes;
};

// Takes the first character, or the first broken byte, off `text`, which is not empty.
CodePoint take_code_point(std::string_view& text) {
  CodePoint result{};
  const auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                       static_cast<utf8proc_ssize_t>(text.size()), &result.value);
  if (length <= 0) result.value = -1;
  result.bytes = text.substr(0, length <= 0 ? 1 : static_cast<std::size_t>(length));
  text.remove_prefix(result.bytes.size());
  return result;
}

std::string hex(const char* format, unsigned value) {
  char buffer[16];
  const int length = std::snprintf(buffer, sizeof(buffer), format, value);
  return {buffer, static_cast<std::size_t>(length)};
}

std::string escape(const CodePoint& character) {
  switch (character.value) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  const bool is_byte = character.value < 0x80;  // ASCII, or broken
  if (is_byte) return hex("\\x%02x", static_cast<unsigned char>(character.bytes.front()));
  return hex(character.value > 0xFFFF ? "\\U%08x" : "\\u%04x", static_cast<unsigned>(character.value));
}

bool needs_escape(utf8proc_int32_t code_point) {
  if (code_point < 0) return true;
  if (code_point == kZeroWidthJoiner || code_point == kZeroWidthNonJoiner) return false;
  switch (utf8proc_category(code_point)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const CodePoint character = take_code_point(text);
    result += needs_escape(character.value) ? escape(character) : std::string(character.bytes);
  }
  return result;
}

std::vector<Cluster> clusters(std::string_view text) {
  std::vector<Cluster> result;
  utf8proc_int32_t previous = 0, state = 0;
  while (!text.empty()) {
    const CodePoint character = take_code_point(text);
    const utf8proc_int32_t value = std::max<utf8proc_int32_t>(character.value, 0);
    if (result.empty() || utf8proc_grapheme_break_stateful(previous, value, &state)) result.emplace_back();
    Cluster& cluster = result.back();
    cluster.text += character.bytes;
    const Index width = value == kVariationSelector16 ? 2 : utf8proc_charwidth(value);
    cluster.width = std::max(cluster.width, width);
    // A flag is two characters of width 1 that a terminal draws as one emoji.
    constexpr utf8proc_int32_t kFirstRegional = 0x1F1E6, kLastRegional = 0x1F1FF;
    if (value >= kFirstRegional && value <= kLastRegional) cluster.width = 2;
    previous = value;
  }
  return result;
}

Index display_width(std::string_view text) {
  Index width = 0;
  for (const Cluster& cluster : clusters(text)) width += cluster.width;
  return width;
}

std::string cut_to_width(std::string_view text, Index width, std::string_view mark) {
  if (display_width(text) <= width) return std::string(text);
  Index left = width - display_width(mark);
  if (left < 0) return std::string(static_cast<std::size_t>(std::max<Index>(width, 0)), '.');
  std::string result;
  for (const Cluster& cluster : clusters(text)) {
    left -= cluster.width;
    if (left < 0) break;
    result += cluster.text;
  }
  return result + std::string(mark);
}

std::string pad_left(std::string_view text, Index width) {
  const Index blanks = std::max<Index>(width - display_width(text), 0);
  return std::string(static_cast<std::size_t>(blanks), ' ').append(text);
}

std::string pad_right(std::string_view text, Index width) {
  const Index blanks = std::max<Index>(width - display_width(text), 0);
  return std::string(text).append(static_cast<std::size_t>(blanks), ' ');
}

std::string percent_text(double weight) {
  if (std::isnan(weight)) return "nan";
  if (weight > 0 && weight < 0.005) return "<1%";
  return std::to_string(std::lround(100 * weight)) + "%";
}

bool has_content(std::string_view text) {
  while (!text.empty()) {
    const CodePoint character = take_code_point(text);
    if (character.value < 0) continue;
    switch (utf8proc_category(character.value)) {
      case UTF8PROC_CATEGORY_LU:
      case UTF8PROC_CATEGORY_LL:
      case UTF8PROC_CATEGORY_LT:
      case UTF8PROC_CATEGORY_LM:
      case UTF8PROC_CATEGORY_LO:
      case UTF8PROC_CATEGORY_ND:
      case UTF8PROC_CATEGORY_NL:
      case UTF8PROC_CATEGORY_NO:
      case UTF8PROC_CATEGORY_SO:
        return true;
      default:
        break;
    }
  }
  return false;
}

}  // namespace qkv::viewer
