#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace qkv {

/// The multipliers of Philox-4x32.
inline constexpr std::uint32_t kPhiloxMultiplier[] = {0xD2511F53, 0xCD9E8D57};
/// What its key grows by from round to round: the fractions of the golden ratio and of sqrt(3).
inline constexpr std::uint32_t kPhiloxStep[] = {0x9E3779B9, 0xBB67AE85};

/// Four random words from a counter and a key: the block function Philox-4x32. Seven rounds pass the statistical tests of BigCrush, ten are
/// the usual choice.
/// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011, section 3.3.
template <int kRounds = 10>
constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t kMultiplier0 = kPhiloxMultiplier[0], kMultiplier1 = kPhiloxMultiplier[1];
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0], product1 = kMultiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key = {key[0] + kPhiloxStep[0], key[1] + kPhiloxStep[1]};
  }
  return counter;
}

/// A sequence of random numbers that is the same on every machine. Every (seed, stream) is a sequence of its own.
///
/// Number n of it is word n mod 4 of philox4x32(counter, key) with b = floor(n / 4) and, low half first,
///   counter = {b, b >> 32, stream, stream >> 32},   key = {seed, seed >> 32}.
class RandomStream {
 public:
  /// Begins with number 0.
  explicit RandomStream(std::uint64_t seed, std::uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  /// The next number: 32 random bits.
  std::uint32_t bits() {
    const auto word = static_cast<std::size_t>(next_ % 4);
    if (word == 0) block_ = philox4x32({low(next_ / 4), high(next_ / 4), low(stream_), high(stream_)}, key());
    ++next_;
    return block_[word];
  }

  /// A multiple of 2^-24 in [0, 1), each as likely as any other: the upper 24 of the next 32 bits.
  float uniform() { return static_cast<float>(bits() >> 8) * 0x1p-24f; }

 private:
  static constexpr std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
  static constexpr std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }
  std::array<std::uint32_t, 2> key() const { return {low(seed_), high(seed_)}; }

  std::uint64_t seed_, stream_;
  std::uint64_t next_ = 0;  // n of the next number
  std::array<std::uint32_t, 4> block_{};
};

}  // namespace qkv
