#pragma once

#include <string>
#include <string_view>

namespace qkv {

/// Text from a file, safe to print in a message: in quotes, one line, ASCII (all else escaped as in JSON), cut after 80
/// bytes.
std::string in_quotes(std::string_view text);

}  // namespace qkv
