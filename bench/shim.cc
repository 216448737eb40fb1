// What peers.py calls, by ctypes: qkv with plain C arguments. Errors end the process; the shapes are the script's own.

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/fma_loop.h"
#include "qkv/attention/attention.h"
#include "qkv/kernels/target.h"
#include "qkv/nn/linear.h"

namespace {

using namespace qkv;

std::unique_ptr<TbbExecutor> threads;
Workspace workspace;

Executor* executor() {
  return threads ? static_cast<Executor*>(threads.get()) : &calling_thread_executor();
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

extern "C" {

/// One call of attention; see the fields' names in AttentionOptions.
struct QkvAttentionCall {
  Index batch, num_heads, num_kv_heads, q_len, kv_len, head_dim, v_head_dim;
  Index is_interleaved;  ///< memory order [batch, len, heads, dim] instead of [batch, heads, len, dim]
  Index is_causal;
  const Index* valid_lens;  ///< [batch], or null
  const bool* keep;         ///< [1, num_heads, q_len, kv_len], or null
  const float* attn_bias;   ///< the same shape, or null
  const Index* documents;   ///< [kv_len], or null
  double dropout;
  const float *w_q, *w_k, *w_v;  ///< of additive scoring [hidden_dim, head_dim] and [hidden_dim], or null
  Index hidden_dim;
};

void qkv_set_threads(Index num_threads) {
  threads = num_threads == 1 ? nullptr : std::make_unique<TbbExecutor>(num_threads);
}

const char* qkv_target() {
  static const std::string name(kernels::active_target());
  return name.c_str();
}

/// GFLOP/s of the FMA loop on every thread at once, over about `seconds`.
double qkv_fma_gflops(Index num_threads, double seconds) {
  const Index num_tasks = 16 * num_threads;  // many, so that a thread that comes late costs little
  Index steps = 10000;
  while (true) {
    std::vector<Index> flops(static_cast<std::size_t>(num_tasks));
    const double begin = seconds_now();
    executor()->run(num_tasks,
                    [&](Index task, Index) { flops[static_cast<std::size_t>(task)] = bench::fma_loop(steps); });
    const double taken = seconds_now() - begin;
    Index sum = 0;
    for (const Index f : flops) sum += f;
    if (taken > seconds / 2) return static_cast<double>(sum) / taken / 1e9;
    steps *= 2;
  }
}

void qkv_attention(const QkvAttentionCall* call, const float* q, const float* k, const float* v, float* out) {
  const QkvAttentionCall& c = *call;
  const auto strides = [&](Index heads, Index len, Index dim) {
    return c.is_interleaved ? Shape<4>{len * heads * dim, dim, heads * dim, 1}
                            : Shape<4>{heads * len * dim, len * dim, dim, 1};
  };
  const CView<4> q_view(q, {c.batch, c.num_heads, c.q_len, c.head_dim}, strides(c.num_heads, c.q_len, c.head_dim));
  const CView<4> k_view(k, {c.batch, c.num_kv_heads, c.kv_len, c.head_dim},
                        strides(c.num_kv_heads, c.kv_len, c.head_dim));
  const CView<4> v_view(v, {c.batch, c.num_kv_heads, c.kv_len, c.v_head_dim},
                        strides(c.num_kv_heads, c.kv_len, c.v_head_dim));
  const View<4> out_view(out, {c.batch, c.num_heads, c.q_len, c.v_head_dim},
                         strides(c.num_heads, c.q_len, c.v_head_dim));
  const Shape<4> mask{1, c.num_heads, c.q_len, c.kv_len};
  AttentionOptions options{.executor = executor()};
  options.mask.causal = c.is_causal != 0;
  if (c.valid_lens) options.mask.valid_lens = ValidLens(TensorView<const Index, 1>(c.valid_lens, {c.batch}));
  if (c.keep) options.mask.keep = TensorView<const bool, 4>(c.keep, mask);
  if (c.attn_bias) options.attn_bias = CView<4>(c.attn_bias, mask);
  if (c.documents) options.mask.documents = Documents{.k = {c.documents, {1, c.kv_len}}};
  if (c.dropout > 0) options.dropout = Dropout{.p = c.dropout, .seed = 1};
  if (c.w_v)
    options.scoring = AdditiveScoring{
        {c.w_q, {c.hidden_dim, c.head_dim}}, {c.w_k, {c.hidden_dim, c.head_dim}}, {c.w_v, {c.hidden_dim}}};
  attention_into(out_view, q_view, k_view, v_view, options, workspace);
}

/// y [tokens, out_dim] = x [tokens, in_dim] w^T + bias.
void qkv_linear(Index tokens, Index in_dim, Index out_dim, const float* x, const float* w, const float* bias,
                float* y) {
  const LinearView layer{.weight = {w, {out_dim, in_dim}}, .bias = CView<1>(bias, {out_dim})};
  linear_into(layer, View<3>(y, {1, tokens, out_dim}), CView<3>(x, {1, tokens, in_dim}), Activation::kNone,
              {.executor = executor()});
}
}
