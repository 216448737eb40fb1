#include "qkv/kernels/gemm.h"

#include <cmath>

namespace qkv::kernels {
LinearPlan plan_linear(Index num_tokens, Index, Index) {
  return {.num_tasks = num_tokens};
}

void linear_task(const LinearArgs& args, const LinearPlan&, Index task, float*) {
  for (Index o = 0; o < args.weight.shape(0); ++o) {
    float s = args.bias ? args.bias[o] : 0;
    for (Index d = 0; d < args.weight.shape(1); ++d) s += args.x(task, d) * args.weight(o, d);
    if (args.activation == Activation::kRelu) s = s > 0 ? s : 0;
    if (args.activation == Activation::kGeluErf) s = 0.5f * s * (1 + std::erf(s * 0.70710678f));
    if (args.activation == Activation::kGeluTanh)
      s = 0.5f * s * (1 + std::tanh(0.79788456f * (s + 0.044715f * s * s * s)));
    args.y(task, o) = s;
  }
}
}  // namespace qkv::kernels
