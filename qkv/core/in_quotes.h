#pragma once

#include <string>
#include <string_view>

namespace qkv {

/// Text from a file, safe to print in a message: in quotes, one line, ASCII (all else as "\n" or, byte by byte, as
/// "\x1b"), cut after 80 bytes.
std::string in_quotes(std::string_view text);

}  // namespace qkv
