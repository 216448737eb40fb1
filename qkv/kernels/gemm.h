#pragma once

#include "qkv/core/tensor_view.h"

namespace qkv::kernels {

/// What is applied to each element of a linear layer's output.
enum class Activation { kNone, kRelu, kGeluErf, kGeluTanh };

/// y = activation(x weight^T + bias), the product of a linear layer. Shapes agree; last axes of x and weight have
/// stride 1.
struct LinearArgs {
  CView<2> x;                                 ///< [num_tokens, in_dim]
  CView<2> weight;                            ///< [out_dim, in_dim], the layout of PyTorch's nn.Linear
  const float* bias = nullptr;                ///< [out_dim], or null for none
  View<2> y;                                  ///< [num_tokens, out_dim]; last axis has stride 1
  Activation activation = Activation::kNone;  ///< what y passes through last
};

/// How the product is cut. A function of the shapes and the SIMD target only, so bits do not depend on threads. Up to four tokens are summed
/// in another order than more of them are, so a row of y may differ in its last bits between a short call and a long one.
struct LinearPlan {
  bool outputs_in_lanes = false;  ///< whether panels hold rows of weight, else rows of x
  Index panels_per_task = 0;      ///< panels that a task packs
  Index rows_per_task = 0;        ///< rows of the other side that a task goes through, where they lie
  Index num_tasks = 0;            ///< independent pieces
  Index workspace_floats = 0;     ///< scratch of one worker
};

/// The plan of a product of these sizes.
LinearPlan plan_linear(Index num_tokens, Index in_dim, Index out_dim);

/// Runs one task. Tasks write disjoint parts of y. `workspace`: plan.workspace_floats floats, aligned to 64 bytes.
void linear_task(const LinearArgs& args, const LinearPlan& plan, Index task, float* workspace);

}  // namespace qkv::kernels
