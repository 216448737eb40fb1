#include "qkv/attention/plan.h"

#include "qkv/attention/resolve.h"
#include "qkv/kernels/target.h"

namespace qkv {

template <class T>
AttentionPlan plan(const Shape<4>& q_shape, const Shape<4>& k_shape, const Shape<4>& v_shape,
                   const BasicAttentionOptions<T>& options) {
  const AttentionShapes shapes{q_shape, k_shape, v_shape};
  check_shapes(shapes, options);
  const auto forward = kernels::plan_attention_forward<T>(forward_shape(shapes, options));
  const Index num_workers = choose_executor(options.executor, forward.num_tasks).num_workers();
  return {.kernel = "fused",
          .target = kernels::active_target(),
          .reason = "exact, a tile of keys at a time; serves every shape, mask and observable",
          .num_tasks = forward.num_tasks,
          .workspace_bytes = forward.workspace_size * num_workers * Index{sizeof(T)}};
}

template AttentionPlan plan(const Shape<4>&, const Shape<4>&, const Shape<4>&, const BasicAttentionOptions<float>&);
template AttentionPlan plan(const Shape<4>&, const Shape<4>&, const Shape<4>&, const BasicAttentionOptions<double>&);

}  // namespace qkv
