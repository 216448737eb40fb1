#include "qkv/core/in_quotes.h"

namespace qkv {

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMaxBytes = 80;
  constexpr std::string_view kHexDigits = "0123456789abcdef";
  std::string result = "\"";
  for (const char c : text.substr(0, kMaxBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result.append("\\").append(1, c);
    } else if (c == '\n') {
      result += "\\n";
    } else if (c >= ' ' && c <= '~') {
      result += c;
    } else {
      result.append("\\x").append(1, kHexDigits[byte / 16]).append(1, kHexDigits[byte % 16]);
    }
  }
  return result + (text.size() > kMaxBytes ? "...\"" : "\"");
}

}  // namespace qkv
