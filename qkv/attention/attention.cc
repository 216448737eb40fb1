#include "qkv/attention/attention.h"

#include "qkv/attention/resolve.h"
#include "qkv/kernels/attention_forward.h"

namespace qkv {
namespace {

// A call whose arguments and outputs have been checked.
template <class T>
void run(const BasicAttentionOutput<T>& output, const View4<T>& q, const View4<T>& k, const View4<T>& v,
         const BasicAttentionOptions<T>& options, Workspace& workspace) {
  const auto args = resolve(q, k, v, options);
  const auto forward = kernels::plan_attention_forward<T>(forward_shape({q.shape(), k.shape(), v.shape()}, options));
  Executor& executor = choose_executor(options.executor, forward.num_tasks);
  T* const scratch = workspace.reserve<T>(forward.workspace_size * executor.num_workers());
  executor.run(forward.num_tasks, [&](Index task, Index worker) {
    kernels::attention_forward_task(args, output, forward, task, scratch + worker * forward.workspace_size);
  });
}

template <class T>
void check_and_run(const BasicAttentionOutput<T>& output, const View4<T>& q, const View4<T>& k, const View4<T>& v,
                   const BasicAttentionOptions<T>& options, Workspace& workspace) {
  check_call(q, k, v, options);
  check_output(output, {q.shape(), k.shape(), v.shape()}, options.observe);
  run(output, q, k, v, options, workspace);
}

template <class T>
BasicAttentionResult<T> run_into_new_tensors(const View4<T>& q, const View4<T>& k, const View4<T>& v,
                                             const BasicAttentionOptions<T>& options) {
  check_call(q, k, v, options);
  const AttentionShapes shapes{q.shape(), k.shape(), v.shape()};
  BasicAttentionResult<T> result;
  if (options.observe.attn_weights) result.attn_weights = Tensor<T, 4>(shapes.attn_weights());
  if (options.observe.lse) result.lse = Tensor<T, 3>(shapes.rows());
  if (options.observe.entropy) result.entropy = Tensor<T, 3>(shapes.rows());
  result.out = Tensor<T, 4>(shapes.out());

  BasicAttentionOutput<T> output(result.out);
  if (options.observe.attn_weights) output.attn_weights = result.attn_weights;
  if (options.observe.lse) output.lse = result.lse;
  if (options.observe.entropy) output.entropy = result.entropy;
  Workspace workspace;
  run(output, q, k, v, options, workspace);
  return result;
}

}  // namespace

void attention_into(const AttentionOutput& output, View4<float> q, View4<float> k, View4<float> v,
                    const AttentionOptions& options, Workspace& workspace) {
  check_and_run(output, q, k, v, options, workspace);
}

void attention_into(const BasicAttentionOutput<double>& output, View4<double> q, View4<double> k, View4<double> v,
                    const BasicAttentionOptions<double>& options, Workspace& workspace) {
  check_and_run(output, q, k, v, options, workspace);
}

AttentionResult attention(View4<float> q, View4<float> k, View4<float> v, const AttentionOptions& options) {
  return run_into_new_tensors(q, k, v, options);
}

BasicAttentionResult<double> attention(View4<double> q, View4<double> k, View4<double> v,
                                       const BasicAttentionOptions<double>& options) {
  return run_into_new_tensors(q, k, v, options);
}

}  // namespace qkv
