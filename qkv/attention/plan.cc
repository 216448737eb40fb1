#include "qkv/attention/plan.h"

#include "qkv/attention/resolve.h"

namespace qkv {

AttentionPlan plan(const Shape<4>& q_shape, const Shape<4>& k_shape, const Shape<4>& v_shape,
                   const AttentionOptions& options) {
  check_shapes({q_shape, k_shape, v_shape}, options);
  return {.kernel = "fused", .target = "", .reason = ""};
}

}  // namespace qkv
