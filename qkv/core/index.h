#pragma once

#include <cstdint>
#include <optional>

namespace qkv {

/// Lengths, positions and strides. 64 bits everywhere: a product of two lengths passes 2^32 easily.
using Index = std::int64_t;

/// a * b, or nothing where the product does not fit. Sizes that come from a file go through here.
inline std::optional<Index> checked_multiply(Index a, Index b) {
  Index product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// a / b, rounded up. a >= 0, b > 0.
inline constexpr Index ceil_div(Index a, Index b) {
  return (a + b - 1) / b;
}
/// The smallest multiple of `multiple` that is not below a. a >= 0, multiple > 0.
inline constexpr Index round_up(Index a, Index multiple) {
  return ceil_div(a, multiple) * multiple;
}

}  // namespace qkv
