#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "qkv/core/executor.h"
#include "qkv/kernels/reference.h"
#include "qkv/nn/transformer_block.h"
#include "support/random.h"

// Layers written out in double, straight from their formulas, and random layers to try them on.

namespace qkv::test {

/// A random layer whose outputs have about the size of its inputs.
inline Linear random_linear(Random& random, Index out_dim, Index in_dim, bool has_bias = true) {
  Linear layer{.weight = random.tensor<2>({out_dim, in_dim})};
  for (Index n = 0; n < layer.weight.size(); ++n) layer.weight.data()[n] /= std::sqrt(static_cast<float>(in_dim));
  if (has_bias) layer.bias = random.tensor<1>({out_dim});
  return layer;
}

/// A layer that changes nothing.
inline Linear identity_linear(Index dim) {
  Linear layer{.weight = Tensor<float, 2>({dim, dim}, 0)};
  for (Index d = 0; d < dim; ++d) layer.weight(d, d) = 1;
  return layer;
}

inline LayerNorm random_norm(Random& random, Index dim, double eps = 1e-5) {
  LayerNorm layer{.weight = random.tensor<1>({dim})};
  layer.bias = random.tensor<1>({dim});
  layer.eps = eps;
  return layer;
}

template <class T, int Rank>
Tensor<double, Rank> to_double(TensorView<T, Rank> x) requires(Rank == 3) {
  Tensor<double, Rank> result(x.shape());
  for (Index b = 0; b < x.shape(0); ++b)
    for (Index i = 0; i < x.shape(1); ++i)
      for (Index d = 0; d < x.shape(2); ++d) result(b, i, d) = x(b, i, d);
  return result;
}

inline double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return x > 0 ? x : 0;
    case Activation::kGeluErf:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
  }
  return 0;
}

inline Tensor<double, 3> linear_reference(const Linear& layer, const Tensor<double, 3>& x,
                                          Activation activation = Activation::kNone) {
  Tensor<double, 3> out({x.shape(0), x.shape(1), layer.out_dim()});
  for (Index b = 0; b < out.shape(0); ++b)
    for (Index i = 0; i < out.shape(1); ++i)
      for (Index o = 0; o < out.shape(2); ++o) {
        double sum = layer.bias ? (*layer.bias)(o) : 0;
        for (Index d = 0; d < x.shape(2); ++d) sum += x(b, i, d) * layer.weight(o, d);
        out(b, i, o) = activate(activation, sum);
      }
  return out;
}

inline Tensor<double, 3> norm_reference(const LayerNorm& layer, const Tensor<double, 3>& x) {
  Tensor<double, 3> out(x.shape());
  const Index dim = x.shape(2);
  for (Index b = 0; b < out.shape(0); ++b)
    for (Index i = 0; i < out.shape(1); ++i) {
      double mean = 0, variance = 0;
      for (Index d = 0; d < dim; ++d) mean += x(b, i, d) / static_cast<double>(dim);
      for (Index d = 0; d < dim; ++d) variance += std::pow(x(b, i, d) - mean, 2) / static_cast<double>(dim);
      for (Index d = 0; d < dim; ++d)
        out(b, i, d) = (x(b, i, d) - mean) / std::sqrt(variance + layer.eps) * layer.weight(d) +
                       (layer.bias ? (*layer.bias)(d) : 0);
    }
  return out;
}

inline Tensor<double, 3> feed_forward_reference(const FeedForward& layer, const Tensor<double, 3>& x) {
  return linear_reference(layer.down_proj, linear_reference(layer.up_proj, x, layer.activation));
}

inline Tensor<double, 3> sum_reference(const Tensor<double, 3>& a, const Tensor<double, 3>& b) {
  Tensor<double, 3> out = a.copy();
  for (Index n = 0; n < out.size(); ++n) out.data()[n] += b.data()[n];
  return out;
}

struct MultiHeadAttentionReference {
  Tensor<double, 3> out;
  kernels::ReferenceResult<double> attention;
};

/// `set_mask` fills in what kernels::AttentionArgs says beyond shapes and scale.
inline MultiHeadAttentionReference multi_head_attention_reference(
    const MultiHeadAttention& layer, const Tensor<double, 3>& query, const Tensor<double, 3>& key,
    const Tensor<double, 3>& value, const std::function<void(kernels::AttentionArgs<double>&)>& set_mask = {}) {
  const Tensor<double, 3> q = linear_reference(layer.q_proj, query), k = linear_reference(layer.k_proj, key),
                          v = linear_reference(layer.v_proj, value);
  const auto heads = [](const Tensor<double, 3>& x, Index num_heads) {
    return x.view().split_axis(2, x.shape(2) / num_heads).swap_axes(1, 2);
  };
  const Index num_kv_heads = layer.num_kv_heads.value_or(layer.num_heads);
  kernels::AttentionArgs<double> args(heads(q, layer.num_heads), heads(k, num_kv_heads), heads(v, num_kv_heads));
  args.scale = 1 / std::sqrt(static_cast<double>(args.head_dim()));
  if (set_mask) set_mask(args);
  MultiHeadAttentionReference result{.out = {}, .attention = kernels::attention_reference<double>(args)};
  Tensor<double, 3> merged({query.shape(0), query.shape(1), layer.num_heads * args.v_head_dim()});
  for (Index b = 0; b < merged.shape(0); ++b)
    for (Index i = 0; i < merged.shape(1); ++i)
      for (Index n = 0; n < merged.shape(2); ++n)
        merged(b, i, n) = result.attention.out(b, n / args.v_head_dim(), i, n % args.v_head_dim());
  result.out = layer.out_proj ? linear_reference(*layer.out_proj, merged) : std::move(merged);
  return result;
}

/// `got` and `expected` have the same shape and differ nowhere by more than `tolerance`; NaN never agrees.
template <int Rank, class T, class U>
void expect_near(const Tensor<T, Rank>& got, const Tensor<U, Rank>& expected, double tolerance) {
  ASSERT_EQ(got.shape(), expected.shape());
  for (Index n = 0; n < got.size(); ++n) {
    const double difference = std::abs(static_cast<double>(got.data()[n]) - static_cast<double>(expected.data()[n]));
    ASSERT_LE(difference, tolerance) << "element " << n << ": got " << got.data()[n] << ", expected "
                                     << expected.data()[n];
  }
}

template <int Rank>
void expect_same_bits(const Tensor<float, Rank>& got, const Tensor<float, Rank>& expected) {
  ASSERT_EQ(got.shape(), expected.shape());
  for (Index n = 0; n < got.size(); ++n) ASSERT_EQ(got.data()[n], expected.data()[n]) << "element " << n;
}

template <class T, int Rank>
std::vector<T> values(const Tensor<T, Rank>& x) {
  return std::vector<T>(x.data(), x.data() + x.size());  // no braces: to bool they would be two values
}

/// A packed tensor of the given values.
template <int Rank>
Tensor<float, Rank> tensor_of(const Shape<Rank>& shape, const std::vector<float>& numbers) {
  Tensor<float, Rank> result(shape);
  EXPECT_EQ(result.size(), static_cast<Index>(numbers.size()));
  std::copy(numbers.begin(), numbers.end(), result.data());
  return result;
}

/// What an error of type Error says; fails the test if there is none.
template <class Error, class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

template <class Call>
std::string invalid(const Call& call) {
  return error_of<std::invalid_argument>(call);
}

/// Matches text that holds all of the parts.
template <class... Parts>
auto holds(const Parts&... parts) {
  return ::testing::AllOf(::testing::HasSubstr(parts)...);
}

}  // namespace qkv::test
