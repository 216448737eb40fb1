#include "qkv/attention/attention.h"

#include "qkv/attention/resolve.h"
#include "qkv/kernels/attention_forward.h"

namespace qkv {

void attention_into(const AttentionOutput& output, CView<4> q, CView<4> k, CView<4> v, const AttentionOptions& options,
                    Workspace& workspace) {
  const AttentionShapes shapes{q.shape(), k.shape(), v.shape()};
  check_shapes(shapes, options);
  check_output(output, shapes, options.observe);
  Index default_q_start = 0;
  const auto args = resolve(q, k, v, options, default_q_start);
  const kernels::AttentionOut<float> out{output.out, output.lse, output.entropy, output.attn_weights};

  const auto forward = kernels::plan_attention_forward(forward_shape(shapes, options));
  Executor& executor = options.executor ? *options.executor : default_executor();
  float* const scratch = workspace.reserve(forward.workspace_floats * executor.num_workers());
  executor.run(forward.num_tasks, [&](Index task, Index worker) {
    kernels::attention_forward_task(args, out, forward, task, scratch + worker * forward.workspace_floats);
  });
}

AttentionResult attention(CView<4> q, CView<4> k, CView<4> v, const AttentionOptions& options) {
  const AttentionShapes shapes{q.shape(), k.shape(), v.shape()};
  check_shapes(shapes, options);
  AttentionResult result;
  result.out = Tensor<float, 4>(shapes.out());
  AttentionOutput output(result.out);
  if (options.observe.lse) output.lse = result.lse = Tensor<float, 3>(shapes.rows());
  if (options.observe.entropy) output.entropy = result.entropy = Tensor<float, 3>(shapes.rows());
  if (options.observe.attn_weights) output.attn_weights = result.attn_weights = Tensor<float, 4>(shapes.attn_weights());
  Workspace workspace;
  attention_into(output, q, k, v, options, workspace);
  return result;
}

}  // namespace qkv
