#pragma once

#include "qkv/attention/options.h"
#include "qkv/attention/result.h"
#include "qkv/kernels/attention_args.h"
#include "qkv/kernels/attention_forward.h"

#pragma GCC visibility push(hidden)  // not for users: neither installed nor exported
namespace qkv {

/// q, k or v.
template <class T>
using View4 = TensorView<const T, 4>;

/// The shapes of a call, checked against each other.
struct AttentionShapes {
  Shape<4> q, k, v;

  Shape<4> out() const { return {q[0], q[1], q[2], v[3]}; }
  Shape<3> rows() const { return {q[0], q[1], q[2]}; }
  Shape<4> attn_weights() const { return {q[0], q[1], q[2], k[2]}; }
};

/// All checks and all defaults of attention live in this file, for T = float and double: a check throws std::invalid_argument, or whatever follows cannot fail.
/// Touches no element of q, k, v; reads valid_lens, q_start and cu_seqlens.
template <class T>
void check_shapes(const AttentionShapes& shapes, const BasicAttentionOptions<T>& options);

/// check_shapes(), and the strides.
template <class T>
void check_call(const View4<T>& q, const View4<T>& k, const View4<T>& v, const BasicAttentionOptions<T>& options);

/// The kernel's arguments of a call that check_call() has let through. They borrow from `options`.
template <class T>
kernels::AttentionArgs<T> resolve(const View4<T>& q, const View4<T>& k, const View4<T>& v,
                                  const BasicAttentionOptions<T>& options);

/// What the kernel's plan depends on.
template <class T>
kernels::ForwardShape forward_shape(const AttentionShapes& shapes, const BasicAttentionOptions<T>& options);

/// Who runs the tasks of a call: the calling thread where there is but one, else `given` or the default. Its workers, any of which may be handed any task,
/// have a share of the workspace each.
Executor& choose_executor(Executor* given, Index num_tasks);

/// Checks that `output` has the right shapes, strides, and a place for everything options.observe asks for.
template <class T>
void check_output(const BasicAttentionOutput<T>& output, const AttentionShapes& shapes, const Observe& observe);

}  // namespace qkv
#pragma GCC visibility pop
