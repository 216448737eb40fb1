#pragma once

#include <cstddef>
#include <iterator>

#pragma GCC visibility push(hidden)  // not for users: neither installed nor exported
namespace qkv {

/// Hands a text to the JSON parser and records how far that has read, because its events carry no position.
struct TrackedByte {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  const char** furthest;  ///< One past the last byte that the parser took.

  const char& operator*() const { return *at; }
  TrackedByte& operator++() {
    *furthest = ++at;
    return *this;
  }
  bool operator==(const TrackedByte& other) const { return at == other.at; }
};

}  // namespace qkv
#pragma GCC visibility pop
