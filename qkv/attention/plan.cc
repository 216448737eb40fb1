#include "qkv/attention/plan.h"

#include "qkv/attention/resolve.h"
#include "qkv/kernels/attention_forward.h"
#include "qkv/kernels/target.h"

namespace qkv {

AttentionPlan plan(const Shape<4>& q_shape, const Shape<4>& k_shape, const Shape<4>& v_shape,
                   const AttentionOptions& options) {
  check_shapes({q_shape, k_shape, v_shape}, options);
  const auto forward = kernels::plan_attention_forward(q_shape[0], q_shape[1], q_shape[2], q_shape[3], v_shape[3]);
  const Index num_workers = (options.executor ? *options.executor : default_executor()).num_workers();
  return {.kernel = "fused",
          .target = kernels::active_target(),
          .reason = "exact, a tile of keys at a time; serves every shape, mask and observable",
          .num_tasks = forward.num_tasks,
          .workspace_bytes = forward.workspace_floats * num_workers * Index{sizeof(float)}};
}

}  // namespace qkv
