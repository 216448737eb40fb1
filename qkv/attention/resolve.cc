#include "qkv/attention/resolve.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "qkv/core/check.h"

namespace qkv {
namespace {

constexpr const char* kFunction = "attention";

// Positions and window sides stay within this, so that sums of them cannot overflow.
constexpr Index kLargestPosition = Index{1} << 60;
// Lengths and widths within these cannot overflow the sizes that a plan is made of, whatever their strides (views of stride 0 need no memory).
constexpr Index kLargestLength = Index{1} << 48, kLargestWidth = Index{1} << 22, kLargestSize = Index{1} << 62;

// Messages are put together only once something is wrong: a call that passes its checks allocates nothing.

void check_as_in(const char* what, Index got, Index expected, const char* where) {
  if (got != expected) throw_invalid(kFunction, what, got, std::to_string(expected) + " as in " + where);
}

void check_mask_shape(const char* name, const Shape<4>& got, const AttentionShapes& shapes) {
  static constexpr const char* kAxes[] = {"batch", "num_heads", "q_len", "kv_len"};
  const Shape<4> full = shapes.attn_weights();
  for (int axis = 0; axis < 4; ++axis) {
    if (got[axis] == full[axis] || got[axis] == 1) continue;
    throw_invalid(kFunction, std::string(name) + ".shape[" + std::to_string(axis) + "] (" + kAxes[axis] + ")",
                  got[axis], std::to_string(full[axis]) + " or 1");
  }
}

void check_window(const Window& window) {
  const auto check_side = [](const char* name, const std::optional<Index>& side) {
    if (side) check(*side >= 0, kFunction, name, *side, ">= 0 (absent = unlimited)");
  };
  check_side("window.left", window.left);
  check_side("window.right", window.right);
}

void check_valid_lens(TensorView<const Index, 2> lengths, const AttentionShapes& shapes) {
  check_equal(kFunction, "valid_lens.shape[0] (batch)", lengths.shape(0), shapes.q[0]);
  const Index q_len = shapes.q[2], kv_len = shapes.k[2];
  check(lengths.shape(1) == q_len || lengths.shape(1) == 1, kFunction, "valid_lens.shape[1] (q_len)", lengths.shape(1),
        q_len);
  for (Index b = 0; b < lengths.shape(0); ++b)
    for (Index i = 0; i < lengths.shape(1); ++i)
      if (lengths(b, i) < 0 || lengths(b, i) > kv_len)
        throw_invalid(kFunction, "valid_lens", lengths(b, i), "0 to kv_len = " + std::to_string(kv_len));
}

void check_position(Index position) {
  check(position >= -kLargestPosition && position <= kLargestPosition, kFunction, "q_start", position, "-2^60 to 2^60");
}

void check_q_start(const Mask& mask, Index batch) {
  if (const Index* scalar = std::get_if<Index>(&*mask.q_start)) return check_position(*scalar);
  const auto& starts = std::get<1>(*mask.q_start);
  if (mask.cu_seqlens_q)
    check_equal(kFunction, "q_start.shape[0] (num_sequences)", starts.shape(0), mask.cu_seqlens_q->shape(0) - 1);
  else
    check_equal(kFunction, "q_start.shape[0] (batch)", starts.shape(0), batch);
  for (Index s = 0; s < starts.shape(0); ++s) check_position(starts(s));
}

void check_documents(const Documents& documents, const AttentionShapes& shapes) {
  const auto check_ids = [&](const char* name, const Shape<2>& got, Index len, const char* len_name) {
    if (got[0] != shapes.q[0] && got[0] != 1)
      throw_invalid(kFunction, std::string(name) + ".shape[0] (batch)", got[0], std::to_string(shapes.q[0]) + " or 1");
    if (got[1] != len) throw_invalid(kFunction, std::string(name) + ".shape[1] (" + len_name + ")", got[1], len);
  };
  check_ids("documents.k", documents.k.shape(), shapes.k[2], "kv_len");
  if (documents.q) return check_ids("documents.q", documents.q->shape(), shapes.q[2], "q_len");
  if (shapes.q[2] != shapes.k[2])
    throw_invalid(kFunction, "documents.q", "no ids",
                  "ids of the queries, as q_len = " + std::to_string(shapes.q[2]) +
                      " is not kv_len = " + std::to_string(shapes.k[2]));
}

void check_bounds(const char* name, TensorView<const Index, 1> bounds, Index len, const char* len_name) {
  const auto refuse = [&](Index s, const std::string& expected) {
    throw_invalid(kFunction, std::string(name) + "[" + std::to_string(s) + "]", bounds(s), expected);
  };
  const Index last = bounds.shape(0) - 1;
  if (last < 1) throw_invalid(kFunction, std::string(name) + ".shape[0] (num_sequences + 1)", last + 1, ">= 2");
  if (bounds(0) != 0) refuse(0, "0");
  for (Index s = 0; s < last; ++s)
    if (bounds(s + 1) < bounds(s)) refuse(s + 1, "at least " + std::to_string(bounds(s)) + ", the bound before it");
  if (bounds(last) != len) refuse(last, std::string(len_name) + " = " + std::to_string(len));
}

void check_sequences(const Mask& mask, const AttentionShapes& shapes) {
  if (!mask.cu_seqlens_q || !mask.cu_seqlens_k)
    throw_invalid(kFunction, mask.cu_seqlens_q ? "cu_seqlens_k" : "cu_seqlens_q", "no bounds",
                  "bounds beside those of the other, or neither");
  check(shapes.q[0] == 1, kFunction, "q.shape[0] (batch)", shapes.q[0], "1, as cu_seqlens cut a ragged batch");
  check_bounds("cu_seqlens_q", *mask.cu_seqlens_q, shapes.q[2], "q_len");
  check_bounds("cu_seqlens_k", *mask.cu_seqlens_k, shapes.k[2], "kv_len");
  check_as_in("cu_seqlens_k.shape[0] (num_sequences + 1)", mask.cu_seqlens_k->shape(0), mask.cu_seqlens_q->shape(0),
              "cu_seqlens_q");
}

template <class T>
void check_per_head(const char* name, const std::optional<TensorView<const T, 1>>& values, Index num_heads) {
  if (values && values->shape(0) != num_heads)
    throw_invalid(kFunction, std::string(name) + ".shape[0] (num_heads)", values->shape(0), num_heads);
}

template <class T, int Rank>
void check_last_stride(const char* name, const TensorView<T, Rank>& view) {
  if (view.shape(Rank - 1) > 1 && view.stride(Rank - 1) != 1)
    throw_invalid(kFunction, std::string(name) + ".stride[" + std::to_string(Rank - 1) + "] (last axis)",
                  view.stride(Rank - 1), 1);
}

void check_width(const char* name, Index width) {
  check(width >= 1 && width <= kLargestWidth, kFunction, name, width, "1 to 2^22");
}

template <class T>
void check_additive(const BasicAdditiveScoring<T>& scoring, const AttentionShapes& shapes) {
  const Index hidden_dim = scoring.w_v.shape(0);
  check_width("w_v.shape[0] (hidden_dim)", hidden_dim);
  check_as_in("w_q.shape[0] (hidden_dim)", scoring.w_q.shape(0), hidden_dim, "w_v");
  check_as_in("w_k.shape[0] (hidden_dim)", scoring.w_k.shape(0), hidden_dim, "w_v");
  check_as_in("w_q.shape[1] (head_dim)", scoring.w_q.shape(1), shapes.q[3], "q");
  check_as_in("w_k.shape[1] (head_dim)", scoring.w_k.shape(1), shapes.k[3], "k");
  check_last_stride("w_q", scoring.w_q);
  check_last_stride("w_k", scoring.w_k);
}

template <class T>
double scale_of(const BasicAttentionOptions<T>& options, Index head_dim) {
  const bool is_dot = std::holds_alternative<DotScoring>(options.scoring);
  return options.scale.value_or(is_dot ? 1 / std::sqrt(static_cast<double>(head_dim)) : 1);
}

// Scores are kept in log2 units, so what they are multiplied by must be of reasonable size: as a float, and doubles get no other rule.
template <class T>
void check_scale(const BasicAttentionOptions<T>& options, Index head_dim) {
  constexpr double kLargest = 1e38;
  const double scale = scale_of(options, head_dim);
  check(std::abs(scale) <= kLargest, kFunction, "scale", scale, "a finite number, at most 1e38");
  if (!options.softcap) return;
  const double softcap = *options.softcap;
  check(softcap >= 1 / kLargest && softcap <= kLargest, kFunction, "softcap", softcap,
        "a finite number > 0, 1e-38 to 1e38");
  check(std::abs(scale) / softcap <= kLargest, kFunction, "scale / softcap", std::abs(scale) / softcap, "at most 1e38");
}

void check_lengths(const char* name, const Shape<4>& shape) {
  Index size = 1;
  for (int axis = 0; axis < 4; ++axis) {
    const bool fits = shape[axis] >= 0 && shape[axis] <= kLargestLength;
    const auto product = fits ? checked_multiply(size, shape[axis]) : std::nullopt;
    if (!product || *product > kLargestSize)
      throw_invalid(kFunction, std::string(name) + ".shape", to_string<4>(shape),
                    "lengths of 0 to 2^48, a product up to 2^62");
    size = *product;
  }
}

// The mask with all four axes at full length; a broadcast axis gets stride 0.
template <class T>
TensorView<const T, 4> broadcast(TensorView<const T, 4> mask, const Shape<4>& full) {
  Shape<4> strides = mask.strides();
  for (int axis = 0; axis < 4; ++axis)
    if (mask.shape(axis) == 1) strides[axis] = 0;
  return {mask.data(), full, strides};
}

template <int Rank>
void check_output_shape(const char* name, const Shape<Rank>& got, const Shape<Rank>& expected) {
  if (got != expected)
    throw_invalid(kFunction, std::string(name) + ".shape", to_string<Rank>(got), to_string<Rank>(expected));
}

}  // namespace

template <class T>
void check_shapes(const AttentionShapes& shapes, const BasicAttentionOptions<T>& options) {
  const auto& [q, k, v] = shapes;
  check_lengths("q", q);
  check_lengths("k", k);
  check_lengths("v", v);
  check_as_in("k.shape[0] (batch)", k[0], q[0], "q");
  check_as_in("v.shape[0] (batch)", v[0], q[0], "q");
  check_width("q.shape[3] (head_dim)", q[3]);
  check_width("k.shape[3] (head_dim)", k[3]);
  check_width("v.shape[3] (v_head_dim)", v[3]);
  if (const auto* additive = std::get_if<BasicAdditiveScoring<T>>(&options.scoring))
    check_additive(*additive, shapes);  // whose w_k brings keys of any width to the width of the hidden layer
  else
    check_as_in("k.shape[3] (head_dim)", k[3], q[3], "q");
  check_as_in("v.shape[2] (kv_len)", v[2], k[2], "k");
  check_as_in("v.shape[1] (num_kv_heads)", v[1], k[1], "k");
  if (k[1] > 0 ? q[1] % k[1] != 0 : q[1] != 0)
    throw_invalid(kFunction, "q.shape[1] (num_heads)", q[1], "a multiple of num_kv_heads = " + std::to_string(k[1]));

  check_scale(options, q[3]);
  if (options.attn_bias) check_mask_shape("attn_bias", options.attn_bias->shape(), shapes);
  if (options.mask.keep) check_mask_shape("keep", options.mask.keep->shape(), shapes);
  if (options.mask.window) check_window(*options.mask.window);
  if (options.mask.valid_lens) check_valid_lens(options.mask.valid_lens->lengths(), shapes);
  check_per_head("alibi_slopes", options.alibi_slopes, q[1]);
  check_per_head("sinks", options.sinks, q[1]);
  if (options.mask.documents) check_documents(*options.mask.documents, shapes);
  if (options.mask.cu_seqlens_q || options.mask.cu_seqlens_k) check_sequences(options.mask, shapes);
  if (options.mask.q_start) check_q_start(options.mask, q[0]);
  if (options.dropout) {
    const double p = options.dropout->p;
    check(p >= 0 && p <= 1, kFunction, "dropout.p", p, "0 to 1");
  }
}

template <class T>
void check_call(const View4<T>& q, const View4<T>& k, const View4<T>& v, const BasicAttentionOptions<T>& options) {
  check_shapes({q.shape(), k.shape(), v.shape()}, options);
  check_last_stride("q", q);
  check_last_stride("k", k);
  check_last_stride("v", v);
}

namespace {

// One row of ids for each batch entry.
TensorView<const Index, 2> broadcast_rows(TensorView<const Index, 2> ids, Index batch) {
  return {ids.data(), {batch, ids.shape(1)}, {ids.shape(0) == 1 ? 0 : ids.stride(0), ids.stride(1)}};
}

// What tells rows and keys apart by where they are.
template <class T>
void resolve_rows(const BasicAttentionOptions<T>& options, Index batch, kernels::AttentionArgs<T>& args) {
  const Mask& mask = options.mask;
  const Index q_len = args.q.shape(2);
  if (mask.cu_seqlens_q) args.sequences = {*mask.cu_seqlens_q, *mask.cu_seqlens_k};
  const Index num_sequences = mask.cu_seqlens_q ? mask.cu_seqlens_q->shape(0) - 1 : batch;
  if (mask.q_start) {
    const Index* scalar = std::get_if<Index>(&*mask.q_start);
    args.q_start = scalar ? TensorView<const Index, 1>(scalar, {num_sequences}, {0}) : std::get<1>(*mask.q_start);
  }
  if (mask.valid_lens) {
    const auto lengths = mask.valid_lens->lengths();
    args.valid_lens = {
        lengths.data(), {batch, q_len}, {lengths.stride(0), lengths.shape(1) == 1 ? 0 : lengths.stride(1)}};
  }
  if (mask.documents)
    args.documents = {.q = broadcast_rows(mask.documents->q.value_or(mask.documents->k), batch),
                      .k = broadcast_rows(mask.documents->k, batch)};
}

// Nothing if no weight would fall.
std::optional<kernels::DropoutBits> resolve_dropout(const std::optional<Dropout>& dropout) {
  const auto threshold = dropout ? static_cast<std::uint32_t>(std::lround(dropout->p * 65536)) : 0;
  if (threshold == 0) return std::nullopt;
  return kernels::DropoutBits{threshold, dropout->seed, static_cast<std::uint32_t>(dropout->batch_start)};
}

}  // namespace

template <class T>
kernels::AttentionArgs<T> resolve(const View4<T>& q, const View4<T>& k, const View4<T>& v,
                                  const BasicAttentionOptions<T>& options) {
  const AttentionShapes shapes{q.shape(), k.shape(), v.shape()};
  const Index batch = q.shape(0);
  kernels::AttentionArgs<T> args(q, k, v);
  args.scoring = options.scoring;
  args.scale = static_cast<T>(scale_of(options, q.shape(3)));
  if (options.softcap) args.softcap = static_cast<T>(*options.softcap);
  if (options.attn_bias) args.attn_bias = broadcast(*options.attn_bias, shapes.attn_weights());
  if (options.mask.keep) args.keep = broadcast(*options.mask.keep, shapes.attn_weights());
  args.alibi_slopes = options.alibi_slopes;
  args.sinks = options.sinks;
  args.dropout = resolve_dropout(options.dropout);
  args.causal = options.mask.causal;
  if (options.mask.window) {
    const auto clamp = [](std::optional<Index> side) {
      return side ? std::optional(std::min(*side, kLargestPosition)) : std::nullopt;
    };
    args.window_left = clamp(options.mask.window->left);
    args.window_right = clamp(options.mask.window->right);
  }
  resolve_rows(options, batch, args);
  return args;
}

template <class T>
kernels::ForwardShape forward_shape(const AttentionShapes& shapes, const BasicAttentionOptions<T>& options) {
  const auto& [q, k, v] = shapes;
  const auto* additive = std::get_if<BasicAdditiveScoring<T>>(&options.scoring);
  return {.batch = q[0],
          .num_heads = q[1],
          .num_kv_heads = k[1],
          .q_len = q[2],
          .kv_len = k[2],
          .head_dim = q[3],
          .k_head_dim = k[3],
          .v_head_dim = v[3],
          .hidden_dim = additive ? additive->w_v.shape(0) : 0,
          .has_keep = options.mask.keep.has_value()};
}

Executor& choose_executor(Executor* given, Index num_tasks) {
  if (num_tasks <= 1) return calling_thread_executor();
  return given ? *given : default_executor();
}

template <class T>
void check_output(const BasicAttentionOutput<T>& output, const AttentionShapes& shapes, const Observe& observe) {
  check_output_shape<4>("out", output.out.shape(), shapes.out());
  check_last_stride("out", output.out);
  const auto check_place = [](const char* name, bool asked, bool given) {
    if (asked && !given)
      throw_invalid(kFunction, std::string("output.") + name, "no view", "one, as options.observe asks for it");
  };
  check_place("lse", observe.lse, output.lse.has_value());
  check_place("entropy", observe.entropy, output.entropy.has_value());
  check_place("attn_weights", observe.attn_weights, output.attn_weights.has_value());
  if (output.lse) check_output_shape<3>("lse", output.lse->shape(), shapes.rows());
  if (output.entropy) check_output_shape<3>("entropy", output.entropy->shape(), shapes.rows());
  if (output.attn_weights) {
    check_output_shape<4>("attn_weights", output.attn_weights->shape(), shapes.attn_weights());
    check_last_stride("attn_weights", *output.attn_weights);
  }
}

// The two types that there are.
template void check_shapes(const AttentionShapes&, const BasicAttentionOptions<float>&);
template void check_call(const View4<float>&, const View4<float>&, const View4<float>&,
                         const BasicAttentionOptions<float>&);
template kernels::AttentionArgs<float> resolve(const View4<float>&, const View4<float>&, const View4<float>&,
                                               const BasicAttentionOptions<float>&);
template kernels::ForwardShape forward_shape(const AttentionShapes&, const BasicAttentionOptions<float>&);
template void check_output(const BasicAttentionOutput<float>&, const AttentionShapes&, const Observe&);
template void check_shapes(const AttentionShapes&, const BasicAttentionOptions<double>&);
template void check_call(const View4<double>&, const View4<double>&, const View4<double>&,
                         const BasicAttentionOptions<double>&);
template kernels::AttentionArgs<double> resolve(const View4<double>&, const View4<double>&, const View4<double>&,
                                                const BasicAttentionOptions<double>&);
template kernels::ForwardShape forward_shape(const AttentionShapes&, const BasicAttentionOptions<double>&);
template void check_output(const BasicAttentionOutput<double>&, const AttentionShapes&, const Observe&);

}  // namespace qkv
