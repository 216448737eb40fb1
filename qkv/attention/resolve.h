#pragma once

#include "qkv/attention/options.h"
#include "qkv/attention/result.h"
#include "qkv/kernels/attention_args.h"
#include "qkv/kernels/attention_forward.h"

#pragma GCC visibility push(hidden)  // not for users: neither installed nor exported
namespace qkv {

/// The shapes of a call, checked against each other.
struct AttentionShapes {
  Shape<4> q, k, v;

  Shape<4> out() const { return {q[0], q[1], q[2], v[3]}; }
  Shape<3> rows() const { return {q[0], q[1], q[2]}; }
  Shape<4> attn_weights() const { return {q[0], q[1], q[2], k[2]}; }
};

/// All checks and all defaults of attention live in this file: a check throws std::invalid_argument, or whatever follows cannot fail.
/// Touches no element of q, k, v; reads valid_lens, q_start and cu_seqlens.
void check_shapes(const AttentionShapes& shapes, const AttentionOptions& options);

/// check_shapes(), and the strides.
void check_call(CView<4> q, CView<4> k, CView<4> v, const AttentionOptions& options);

/// The kernel's arguments of a call that check_call() has let through. They borrow from `options`.
kernels::AttentionArgs<float> resolve(CView<4> q, CView<4> k, CView<4> v, const AttentionOptions& options);

/// What the kernel's plan depends on.
kernels::ForwardShape forward_shape(const AttentionShapes& shapes, const AttentionOptions& options);

/// Checks that `output` has the right shapes, strides, and a place for everything options.observe asks for.
void check_output(const AttentionOutput& output, const AttentionShapes& shapes, const Observe& observe);

}  // namespace qkv
#pragma GCC visibility pop
