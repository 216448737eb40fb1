#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "nn/layer_support.h"
#include "qkv/nn/state_dict.h"

namespace qkv::test {

inline std::vector<std::string> names(const StateDict& state) {
  std::vector<std::string> result;
  for (const auto& [name, tensor] : state) result.push_back(name);
  return result;
}

inline std::vector<std::uint32_t> bits(const TensorValues<float>& tensor) {
  std::vector<std::uint32_t> result;
  for (Index n = 0; n < tensor.values.size(); ++n)
    result.push_back(std::bit_cast<std::uint32_t>(tensor.values.data()[n]));
  return result;
}

inline std::vector<float> values(const TensorValues<float>& tensor) {
  return {tensor.values.data(), tensor.values.data() + tensor.values.size()};
}

/// Same names, shapes and bits, NaN included.
inline void expect_same_state(const StateDict& got, const StateDict& expected) {
  ASSERT_EQ(names(got), names(expected));
  for (const auto& [name, tensor] : expected) {
    EXPECT_EQ(got.at(name).shape, tensor.shape) << name;
    EXPECT_EQ(bits(got.at(name)), bits(tensor)) << name;
  }
}

inline TensorValues<float> entry(const std::vector<Index>& shape, const std::vector<float>& numbers) {
  TensorValues<float> result{shape, AlignedBuffer<float>(static_cast<Index>(numbers.size()))};
  std::copy(numbers.begin(), numbers.end(), result.values.data());
  return result;
}

/// A layer of the same shapes as `layer` whose parameters are all 0.
template <class Layer>
Layer blank(Layer layer) {
  for_each_parameter(layer, [](const std::string&, auto& tensor) { std::fill_n(tensor.data(), tensor.size(), 0.f); });
  return layer;
}

}  // namespace qkv::test
