#pragma once

#include "qkv/kernels/attention_args.h"

// The fused forward kernel: out = softmax(scale Q K^T ...) V, a tile of keys at a time, lanes = queries. See
// docs/kernels.md.

namespace qkv::kernels {

/// What the plan of a call depends on.
struct ForwardShape {
  Index batch, num_heads, num_kv_heads, q_len, kv_len, head_dim, k_head_dim, v_head_dim;
  Index hidden_dim = 0;   ///< of additive scoring, else 0
  bool has_keep = false;  ///< whether there is a mask `keep`
};

/// How a call is cut into tasks. Which panel a query falls into depends on q_len and the SIMD target only, so the bits
/// of a row do not depend on how many panels a task takes, let alone on the thread that runs it.
struct ForwardPlan {
  Index num_panels = 0;       ///< of one (batch, head)
  Index panels_per_task = 0;  ///< panels that share each tile of keys and values while it is in cache
  Index tasks_per_head = 0;
  Index heads_per_task =
      1;  ///< more than 1 only where tasks_per_head is 1: short heads, or few and next to nothing to do
  Index num_tasks = 0;
  bool fetches_ahead =
      false;  ///< whether tasks fetch keys and values, and queries of the next head, before they need them
  bool fetches_outputs = false;  ///< whether they fetch the places of outputs
  Index workspace_size = 0;      ///< scratch of one worker, in elements
};

/// T: float or double.
template <class T>
ForwardPlan plan_attention_forward(const ForwardShape& shape);
template <>
ForwardPlan plan_attention_forward<float>(const ForwardShape& shape);
template <>
ForwardPlan plan_attention_forward<double>(const ForwardShape& shape);

/// Runs one task: all that `out` has a view for, for the task's queries. Tasks write disjoint rows. `workspace`:
/// plan.workspace_size elements of the worker's own, aligned to 64 bytes.
/// @{
void attention_forward_task(const AttentionArgs<float>& args, const AttentionOutput<float>& out,
                            const ForwardPlan& plan, Index task, float* workspace);
void attention_forward_task(const AttentionArgs<double>& args, const AttentionOutput<double>& out,
                            const ForwardPlan& plan, Index task, double* workspace);
/// @}

}  // namespace qkv::kernels
