#pragma once

#include <concepts>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "qkv/core/index.h"

namespace qkv {

/// The one form of every argument error: "function: what: got X, expected Y" (lower case, one line, no full stop).
template <class Got, class Expected>
[[noreturn]] void throw_invalid(std::string_view function, std::string_view what, const Got& got,
                                const Expected& expected) {
  std::ostringstream message;
  message << function << ": " << what << ": got " << got << ", expected " << expected;
  throw std::invalid_argument(message.str());
}

/// Throws std::invalid_argument in the form above unless `condition` holds.
/// Checks live at the public boundary only; kernels receive arguments that are already right.
template <class Got, class Expected>
void check(bool condition, std::string_view function, std::string_view what, const Got& got, const Expected& expected) {
  if (!condition) [[unlikely]]
    throw_invalid(function, what, got, expected);
}

/// Throws unless got == expected.
template <std::equality_comparable Value>
void check_equal(std::string_view function, std::string_view what, const Value& got, const Value& expected) {
  check(got == expected, function, what, got, expected);
}

}  // namespace qkv
