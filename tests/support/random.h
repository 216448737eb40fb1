#pragma once

#include <cstdint>
#include <random>

#include "qkv/core/tensor.h"

namespace qkv::test {

/// Numbers of a normal distribution, the same on every machine for a seed.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  template <class T = float>
  T normal() {
    return static_cast<T>(normal_(engine_));
  }
  /// 0 .. limit-1
  Index below(Index limit) { return static_cast<Index>(engine_() % static_cast<std::uint64_t>(limit)); }
  bool chance(double p) { return static_cast<double>(engine_() >> 11) * 0x1p-53 < p; }

  template <int Rank, class T = float>
  Tensor<T, Rank> tensor(const Shape<Rank>& shape) {
    Tensor<T, Rank> result(shape);
    for (Index n = 0; n < result.size(); ++n) result.data()[n] = normal<T>();
    return result;
  }

 private:
  std::mt19937_64 engine_;
  std::normal_distribution<double> normal_;
};

}  // namespace qkv::test
