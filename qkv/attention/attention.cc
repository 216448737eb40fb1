#include "qkv/attention/attention.h"

#include <algorithm>

#include "qkv/attention/resolve.h"
#include "qkv/kernels/attention_forward.h"

namespace qkv {
namespace {

// A call whose arguments and outputs have been checked.
void run(const AttentionOutput& output, CView<4> q, CView<4> k, CView<4> v, const AttentionOptions& options,
         Workspace& workspace) {
  const auto args = resolve(q, k, v, options);
  const auto forward = kernels::plan_attention_forward(forward_shape({q.shape(), k.shape(), v.shape()}, options));
  Executor& executor = options.executor ? *options.executor : default_executor();
  const Index num_workers = std::min(executor.num_workers(), forward.num_tasks);
  float* const scratch = workspace.reserve(forward.workspace_floats * num_workers);
  executor.run(forward.num_tasks, [&](Index task, Index worker) {
    kernels::attention_forward_task(args, output, forward, task, scratch + worker * forward.workspace_floats);
  });
}

}  // namespace

void attention_into(const AttentionOutput& output, CView<4> q, CView<4> k, CView<4> v, const AttentionOptions& options,
                    Workspace& workspace) {
  check_call(q, k, v, options);
  check_output(output, {q.shape(), k.shape(), v.shape()}, options.observe);
  run(output, q, k, v, options, workspace);
}

AttentionResult attention(CView<4> q, CView<4> k, CView<4> v, const AttentionOptions& options) {
  check_call(q, k, v, options);
  const AttentionShapes shapes{q.shape(), k.shape(), v.shape()};
  AttentionResult result;
  if (options.observe.attn_weights) result.attn_weights = Tensor<float, 4>(shapes.attn_weights());
  if (options.observe.lse) result.lse = Tensor<float, 3>(shapes.rows());
  if (options.observe.entropy) result.entropy = Tensor<float, 3>(shapes.rows());
  result.out = Tensor<float, 4>(shapes.out());

  AttentionOutput output(result.out);
  if (options.observe.attn_weights) output.attn_weights = result.attn_weights;
  if (options.observe.lse) output.lse = result.lse;
  if (options.observe.entropy) output.entropy = result.entropy;
  Workspace workspace;
  run(output, q, k, v, options, workspace);
  return result;
}

}  // namespace qkv
