#include "qkv/nn/init.h"

#include <cmath>
#include <string>

#include "qkv/core/check.h"

namespace qkv {

namespace {

// Exact but for one rounding, the product: so the bits are the same everywhere.
template <int Rank>
Tensor<float, Rank> symmetric_uniform(const Shape<Rank>& shape, float bound, RandomStream& random) {
  Tensor<float, Rank> result(shape);
  for (Index n = 0; n < result.size(); ++n) result.data()[n] = (2 * random.uniform() - 1) * bound;
  return result;
}

}  // namespace

Linear make_linear(const LinearShape& shape, RandomStream& random) {
  check(shape.in_dim >= 1, "make_linear", "in_dim", shape.in_dim, ">= 1");
  check(shape.out_dim >= 1, "make_linear", "out_dim", shape.out_dim, ">= 1");
  const auto bound = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.in_dim)));
  Linear layer{.weight = symmetric_uniform<2>({shape.out_dim, shape.in_dim}, bound, random)};
  if (shape.bias) layer.bias = symmetric_uniform<1>({shape.out_dim}, bound, random);
  return layer;
}

MultiHeadAttention make_multi_head_attention(const MultiHeadAttentionShape& shape, RandomStream& random) {
  constexpr const char* kFunction = "make_multi_head_attention";
  const Index num_heads = shape.num_heads;
  const Index num_kv_heads = shape.num_kv_heads.value_or(num_heads);
  check(num_heads >= 1, kFunction, "num_heads", num_heads, ">= 1");
  check(num_kv_heads >= 1 && num_heads % num_kv_heads == 0, kFunction, "num_kv_heads", num_kv_heads,
        "a divisor of num_heads = " + std::to_string(num_heads));
  const auto check_size = [](const char* name, Index size) { check(size >= 1, kFunction, name, size, ">= 1"); };
  check_size("embed_dim", shape.embed_dim);
  check(shape.head_dim || shape.embed_dim % num_heads == 0, kFunction, "embed_dim", shape.embed_dim,
        "a multiple of num_heads = " + std::to_string(num_heads));
  const Index head_dim = shape.head_dim.value_or(shape.embed_dim / num_heads);
  const Index v_head_dim = shape.v_head_dim.value_or(head_dim);
  const Index query_dim = shape.query_dim.value_or(shape.embed_dim);
  const Index key_dim = shape.key_dim.value_or(query_dim);
  const Index value_dim = shape.value_dim.value_or(key_dim);
  check_size("head_dim", head_dim);
  check_size("v_head_dim", v_head_dim);
  check_size("query_dim", query_dim);
  check_size("key_dim", key_dim);
  check_size("value_dim", value_dim);
  const auto linear = [&](Index in_dim, Index out_dim) {
    return make_linear({.in_dim = in_dim, .out_dim = out_dim, .bias = shape.bias}, random);
  };
  MultiHeadAttention layer{.q_proj = linear(query_dim, num_heads * head_dim),
                           .k_proj = linear(key_dim, num_kv_heads * head_dim),
                           .v_proj = linear(value_dim, num_kv_heads * v_head_dim),
                           .num_heads = num_heads,
                           .num_kv_heads = shape.num_kv_heads};
  if (shape.out_proj) layer.out_proj = linear(num_heads * v_head_dim, shape.embed_dim);
  return layer;
}

}  // namespace qkv
