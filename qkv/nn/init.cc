#include "qkv/nn/init.h"

#include <cmath>
#include <string>

#include "qkv/core/check.h"

namespace qkv {

namespace {

// Uniform in [-bound, bound], bound = 1/sqrt(in_dim). Exact but for rounding bound and the product, so the bits are the
// same everywhere.
template <int Rank>
Tensor<float, Rank> linear_uniform(const Shape<Rank>& shape, Index in_dim, RandomStream& random) {
  const auto bound = static_cast<float>(1 / std::sqrt(static_cast<double>(in_dim)));
  Tensor<float, Rank> result(shape);
  for (Index n = 0; n < result.size(); ++n) result.data()[n] = (2 * random.uniform() - 1) * bound;
  return result;
}

constexpr const char* kAttention = "make_multi_head_attention";

// The sizes with nothing left to follow from others; checked.
struct AttentionSizes {
  Index num_kv_heads, head_dim, v_head_dim;
  Index query_dim, key_dim, value_dim;  // what each projection reads
};

AttentionSizes resolve(const MultiHeadAttentionShape& shape) {
  const auto check_size = [](const char* name, Index size) { check(size >= 1, kAttention, name, size, ">= 1"); };
  AttentionSizes sizes{};
  check_size("num_heads", shape.num_heads);
  check_size("embed_dim", shape.embed_dim);
  const std::string num_heads = "num_heads = " + std::to_string(shape.num_heads);
  sizes.num_kv_heads = shape.num_kv_heads.value_or(shape.num_heads);
  check(sizes.num_kv_heads >= 1 && shape.num_heads % sizes.num_kv_heads == 0, kAttention, "num_kv_heads",
        sizes.num_kv_heads, "a divisor of " + num_heads);
  check(shape.head_dim || shape.embed_dim % shape.num_heads == 0, kAttention, "embed_dim", shape.embed_dim,
        "a multiple of " + num_heads);
  sizes.head_dim = shape.head_dim.value_or(shape.embed_dim / shape.num_heads);
  sizes.v_head_dim = shape.v_head_dim.value_or(sizes.head_dim);
  check_size("head_dim", sizes.head_dim);
  check_size("v_head_dim", sizes.v_head_dim);

  const auto slice_of = [&](const char* name, Index width, Index heads) {
    check_size(name, width);
    if (shape.head_split == HeadSplit::kProjectThenSplit) return width;
    check(width % heads == 0, kAttention, name, width, "a multiple of its " + std::to_string(heads) + " heads");
    return width / heads;
  };
  const Index query_dim = shape.query_dim.value_or(shape.embed_dim);
  const Index key_dim = shape.key_dim.value_or(query_dim);
  sizes.query_dim = slice_of("query_dim", query_dim, shape.num_heads);
  sizes.key_dim = slice_of("key_dim", key_dim, sizes.num_kv_heads);
  sizes.value_dim = slice_of("value_dim", shape.value_dim.value_or(key_dim), sizes.num_kv_heads);
  check(shape.dropout >= 0 && shape.dropout <= 1, kAttention, "dropout", shape.dropout, "a probability, 0 to 1");
  return sizes;
}

}  // namespace

Linear make_linear(const LinearShape& shape, RandomStream& random) {
  check(shape.in_dim >= 1, "make_linear", "in_dim", shape.in_dim, ">= 1");
  check(shape.out_dim >= 1, "make_linear", "out_dim", shape.out_dim, ">= 1");
  Linear layer{.weight = linear_uniform<2>({shape.out_dim, shape.in_dim}, shape.in_dim, random)};
  if (shape.bias) layer.bias = linear_uniform<1>({shape.out_dim}, shape.in_dim, random);
  return layer;
}

AdditiveWeights make_additive_weights(const AdditiveShape& shape, RandomStream& random) {
  const Index k_head_dim = shape.k_head_dim.value_or(shape.head_dim);
  check(shape.hidden_dim >= 1, "make_additive_weights", "hidden_dim", shape.hidden_dim, ">= 1");
  check(shape.head_dim >= 1, "make_additive_weights", "head_dim", shape.head_dim, ">= 1");
  check(k_head_dim >= 1, "make_additive_weights", "k_head_dim", k_head_dim, ">= 1");
  return {.w_q = linear_uniform<2>({shape.hidden_dim, shape.head_dim}, shape.head_dim, random),
          .w_k = linear_uniform<2>({shape.hidden_dim, k_head_dim}, k_head_dim, random),
          .w_v = linear_uniform<1>({shape.hidden_dim}, shape.hidden_dim, random)};
}

MultiHeadAttention make_multi_head_attention(const MultiHeadAttentionShape& shape, RandomStream& random) {
  const AttentionSizes sizes = resolve(shape);
  const auto linear = [&](Index in_dim, Index out_dim) {
    return make_linear({.in_dim = in_dim, .out_dim = out_dim, .bias = shape.bias}, random);
  };
  MultiHeadAttention layer{.q_proj = linear(sizes.query_dim, shape.num_heads * sizes.head_dim),
                           .k_proj = linear(sizes.key_dim, sizes.num_kv_heads * sizes.head_dim),
                           .v_proj = linear(sizes.value_dim, sizes.num_kv_heads * sizes.v_head_dim),
                           .num_heads = shape.num_heads,
                           .num_kv_heads = shape.num_kv_heads,
                           .head_split = shape.head_split,
                           .dropout = shape.dropout};
  if (shape.out_proj) layer.out_proj = linear(shape.num_heads * sizes.v_head_dim, shape.embed_dim);
  return layer;
}

}  // namespace qkv
