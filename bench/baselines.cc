#include "bench/baselines.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "qkv/kernels/reference.h"
#include "qkv/nn/linear.h"

namespace qkv::bench {

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Calls task(b, h) for every batch entry and head.
template <class Task>
void for_each_head(const Args& args, Executor& executor, const Task& task) {
  executor.run(args.batch() * args.num_heads(),
               [&](Index index, Index) { task(index / args.num_heads(), index % args.num_heads()); });
}

float bias_of_pair(const Args& args, Index b, Index h, Index i, Index j) {
  if (!kernels::reference_visible(args, b, h, i, j)) return kMinusInfinity;
  return args.attn_bias ? (*args.attn_bias)(b, h, i, j) : 0;
}

// out [v_head_dim] of one query; bias(j) is what is added to the score of key j. Every sum is a Sum.
template <class Sum, class Bias>
void naive_row(const Args& args, Index b, Index h, Index i, const Bias& bias, Sum* out) {
  const Index kv_head = h / args.group_size();
  const float* q = &args.q(b, h, i, 0);
  std::vector<Sum> weights(static_cast<std::size_t>(args.kv_len()));
  Sum row_max = -std::numeric_limits<Sum>::infinity(), row_sum = 0;
  for (Index j = 0; j < args.kv_len(); ++j) {
    const float* k = &args.k(b, kv_head, j, 0);
    Sum dot = 0;
    for (Index d = 0; d < args.head_dim(); ++d) dot += Sum(q[d]) * Sum(k[d]);
    weights[static_cast<std::size_t>(j)] = dot * Sum(args.scale) + Sum(bias(j));
    row_max = std::max(row_max, weights[static_cast<std::size_t>(j)]);
  }
  std::fill_n(out, args.v_head_dim(), Sum(0));
  if (std::isinf(row_max)) return;  // no key to see
  for (Sum& weight : weights) row_sum += weight = std::exp(weight - row_max);
  for (Index j = 0; j < args.kv_len(); ++j) {
    const float* v = &args.v(b, kv_head, j, 0);
    const Sum weight = weights[static_cast<std::size_t>(j)] / row_sum;
    for (Index d = 0; d < args.v_head_dim(); ++d) out[d] += weight * Sum(v[d]);
  }
}

// scores [q_len, kv_len] -> the softmax of scores * scale + bias, row by row
void softmax_rows(View<2> scores, float scale, CView<2> bias) {
  const Index kv_len = scores.shape(1);
  for (Index i = 0; i < scores.shape(0); ++i) {
    float* row = &scores(i, 0);
    const float* row_bias = &bias(i, 0);
    float row_max = kMinusInfinity, row_sum = 0;
    for (Index j = 0; j < kv_len; ++j) row_max = std::max(row_max, row[j] = row[j] * scale + row_bias[j]);
    const float shift = std::isinf(row_max) ? 0 : row_max;
    for (Index j = 0; j < kv_len; ++j) row_sum += row[j] = std::exp(row[j] - shift);
    const float factor = row_sum > 0 ? 1 / row_sum : 0;
    for (Index j = 0; j < kv_len; ++j) row[j] *= factor;
  }
}

// out [len, out_dim] = x [len, in_dim] weight^T, on the thread that asks for it.
void multiply(CView<2> x, CView<2> weight, View<2> out) {
  linear_into({.weight = weight}, out, x, Activation::kNone, {.executor = &calling_thread_executor()});
}

}  // namespace

double visible_pairs(const Args& args) {
  double pairs = 0;
  for (Index b = 0; b < args.batch(); ++b)
    for (Index h = 0; h < args.num_heads(); ++h)
      for (Index i = 0; i < args.q_len(); ++i)
        for (Index j = 0; j < args.kv_len(); ++j) pairs += bias_of_pair(args, b, h, i, j) > kMinusInfinity;
  return pairs;
}

Tensor<float, 4> dense_bias(const Args& args) {
  Tensor<float, 4> bias({args.batch(), args.num_heads(), args.q_len(), args.kv_len()});
  for (Index b = 0; b < args.batch(); ++b)
    for (Index h = 0; h < args.num_heads(); ++h)
      for (Index i = 0; i < args.q_len(); ++i)
        for (Index j = 0; j < args.kv_len(); ++j) bias(b, h, i, j) = bias_of_pair(args, b, h, i, j);
  return bias;
}

void naive_attention(const Args& args, CView<4> bias, View<4> out, Executor& executor) {
  for_each_head(args, executor, [&](Index b, Index h) {
    for (Index i = 0; i < args.q_len(); ++i)
      naive_row(
          args, b, h, i, [&](Index j) { return bias(b, h, i, j); }, &out(b, h, i, 0));
  });
}

UnfusedScratch unfused_scratch(const Args& args) {
  return {.scores = Tensor<float, 4>({args.batch(), args.num_heads(), args.q_len(), args.kv_len()}),
          .v_transposed = Tensor<float, 4>({args.batch(), args.v.shape(1), args.v_head_dim(), args.kv_len()})};
}

void unfused_attention(const Args& args, CView<4> bias, View<4> out, UnfusedScratch& scratch, Executor& executor) {
  const Index num_kv_heads = args.v.shape(1);
  executor.run(args.batch() * num_kv_heads, [&](Index index, Index) {
    const Index b = index / num_kv_heads, h = index % num_kv_heads;
    for (Index j = 0; j < args.kv_len(); ++j)
      for (Index d = 0; d < args.v_head_dim(); ++d) scratch.v_transposed(b, h, d, j) = args.v(b, h, j, d);
  });
  for_each_head(args, executor, [&](Index b, Index h) {
    const Index kv_head = h / args.group_size();
    const View<2> scores = scratch.scores.view().select(0, b).select(0, h);
    multiply(args.q.select(0, b).select(0, h), args.k.select(0, b).select(0, kv_head), scores);
    softmax_rows(scores, args.scale, bias.select(0, b).select(0, h));
    multiply(scores, scratch.v_transposed.view().select(0, b).select(0, kv_head), out.select(0, b).select(0, h));
  });
}

bool is_right(const Args& args, CView<4> out, Executor& executor) {
  constexpr Index kEveryRow = 61;  // odd, so that all lanes of a panel have their turn
  constexpr double kTolerance = 1e-4;
  std::atomic<bool> right = true;
  for_each_head(args, executor, [&](Index b, Index h) {
    std::vector<double> expected(static_cast<std::size_t>(args.v_head_dim()));
    for (Index i = 0; i < args.q_len(); i += kEveryRow) {
      naive_row(
          args, b, h, i, [&](Index j) { return bias_of_pair(args, b, h, i, j); }, expected.data());
      for (Index d = 0; d < args.v_head_dim(); ++d)
        if (!(std::abs(out(b, h, i, d) - expected[static_cast<std::size_t>(d)]) <= kTolerance)) right = false;
    }
  });
  return right;
}

}  // namespace qkv::bench
