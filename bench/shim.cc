// What bench/qkv_shim.py calls, by ctypes: qkv with plain C arguments. Errors end the process; the shapes are the script's own.

#include "bench/shim.h"

#include <memory>
#include <string>

#include "bench/rates.h"
#include "qkv/attention/attention.h"
#include "qkv/kernels/target.h"
#include "qkv/nn/linear.h"

namespace qkv::bench {

namespace {

std::unique_ptr<TbbExecutor> threads;
Workspace workspace;

}  // namespace

Executor& executor() {
  return threads ? static_cast<Executor&>(*threads) : calling_thread_executor();
}

}  // namespace qkv::bench

using namespace qkv;

extern "C" {

/// One call of attention; see the fields' names in AttentionOptions. Elements are all floats or all doubles.
struct QkvAttentionCall {
  Index batch, num_heads, num_kv_heads, q_len, kv_len, head_dim, v_head_dim;
  Index is_interleaved;  ///< memory order [batch, len, heads, dim] instead of [batch, heads, len, dim]
  Index is_causal;
  const Index* valid_lens;  ///< [batch], or null
  const bool* keep;         ///< [1, num_heads, q_len, kv_len], or null
  const void* attn_bias;    ///< the same shape, or null
  const Index* documents;   ///< [kv_len], or null
  double dropout;
  const void *w_q, *w_k, *w_v;  ///< of additive scoring [hidden_dim, head_dim] and [hidden_dim], or null
  Index hidden_dim;
};
}

namespace {

template <class T>
BasicAttentionOptions<T> options_of(const QkvAttentionCall& c) {
  const auto elements = [](const void* data) { return static_cast<const T*>(data); };
  const Shape<4> mask{1, c.num_heads, c.q_len, c.kv_len};
  BasicAttentionOptions<T> options{.executor = &bench::executor()};
  options.mask.causal = c.is_causal != 0;
  if (c.valid_lens) options.mask.valid_lens = ValidLens(TensorView<const Index, 1>(c.valid_lens, {c.batch}));
  if (c.keep) options.mask.keep = TensorView<const bool, 4>(c.keep, mask);
  if (c.attn_bias) options.attn_bias = TensorView<const T, 4>(elements(c.attn_bias), mask);
  if (c.documents) options.mask.documents = Documents{.k = {c.documents, {1, c.kv_len}}};
  if (c.dropout > 0) options.dropout = Dropout{.p = c.dropout, .seed = 1};
  if (c.w_v)
    options.scoring = BasicAdditiveScoring<T>{{elements(c.w_q), {c.hidden_dim, c.head_dim}},
                                              {elements(c.w_k), {c.hidden_dim, c.head_dim}},
                                              {elements(c.w_v), {c.hidden_dim}}};
  return options;
}

template <class T>
void run_attention(const QkvAttentionCall& c, const T* q, const T* k, const T* v, T* out) {
  const auto view = [&]<class U>(U* data, Index heads, Index len, Index dim) {
    const Shape<4> interleaved{len * heads * dim, dim, heads * dim, 1}, packed{heads * len * dim, len * dim, dim, 1};
    return TensorView<U, 4>(data, {c.batch, heads, len, dim}, c.is_interleaved ? interleaved : packed);
  };
  attention_into(view(out, c.num_heads, c.q_len, c.v_head_dim), view(q, c.num_heads, c.q_len, c.head_dim),
                 view(k, c.num_kv_heads, c.kv_len, c.head_dim), view(v, c.num_kv_heads, c.kv_len, c.v_head_dim),
                 options_of<T>(c), bench::workspace);
}

}  // namespace

extern "C" {

void qkv_set_threads(Index num_threads) {
  bench::threads = num_threads == 1 ? nullptr : std::make_unique<TbbExecutor>(num_threads);
}

const char* qkv_target() {
  static const std::string name(kernels::active_target());
  return name.c_str();
}

/// GFLOP/s of the FMA loop on every thread at once, over about `seconds`.
double qkv_fma_gflops(Index is_f64, double seconds) {
  return bench::fma_gflops(bench::executor(), is_f64 ? bench::Precision::kF64 : bench::Precision::kF32, seconds);
}

/// GB/s of every thread at once reading `size` floats.
double qkv_read_gbytes(const float* data, Index size) {
  return bench::read_gbytes(bench::executor(), data, size);
}

void qkv_attention(const QkvAttentionCall* call, const float* q, const float* k, const float* v, float* out) {
  run_attention(*call, q, k, v, out);
}

void qkv_attention_f64(const QkvAttentionCall* call, const double* q, const double* k, const double* v, double* out) {
  run_attention(*call, q, k, v, out);
}

/// y [tokens, out_dim] = x [tokens, in_dim] w^T + bias.
void qkv_linear(Index tokens, Index in_dim, Index out_dim, const float* x, const float* w, const float* bias,
                float* y) {
  const LinearView layer{.weight = {w, {out_dim, in_dim}}, .bias = CView<1>(bias, {out_dim})};
  linear_into(layer, View<3>(y, {1, tokens, out_dim}), CView<3>(x, {1, tokens, in_dim}), Activation::kNone,
              {.executor = &bench::executor()});
}

/// Seconds of one call on q, k, v and out of [1, 1, 1, head_dim], on the calling thread: the mean of `calls` in a row.
double qkv_tiny_call_seconds(Index head_dim, const float* q, const float* k, const float* v, float* out, Index calls) {
  const Shape<4> shape{1, 1, 1, head_dim};
  const AttentionOptions options{.executor = &calling_thread_executor()};
  const double begin = bench::seconds_now();
  for (Index n = 0; n < calls; ++n)
    attention_into(View<4>(out, shape), CView<4>(q, shape), CView<4>(k, shape), CView<4>(v, shape), options,
                   bench::workspace);
  return (bench::seconds_now() - begin) / static_cast<double>(calls);
}
}
