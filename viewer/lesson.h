#pragma once

#include <string>
#include <vector>

namespace qkv::viewer {

// What the lessons have in common. A lesson measures what a tutorial claims, and says of each claim whether the numbers
// agree with it.

/// A sentence of a tutorial, and what the measurement says of it.
struct Claim {
  std::string claim;          ///< as the tutorial says it, without a full stop
  bool holds = false;         ///< decided by the numbers alone
  std::string evidence = {};  ///< the numbers that decide, in a sentence
};

/// A number as a reader wants it: "1024", "63.9", "0.14", "6.8e-04".
std::string number_text(double number);

/// A count that was averaged: "5.7".
std::string tenths_text(double number);

/// "4% to 15%", or "4%" where both read alike.
std::string range_text(const std::string& from, const std::string& to);

/// "in all 6 layers", "in 5 of 6 layers", "in none of 6 layers".
std::string count_text(std::size_t count, std::size_t total, const std::string& what);

}  // namespace qkv::viewer
