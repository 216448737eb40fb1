#include "qkv/nn/linear.h"

#include <string>

#include "qkv/core/aligned_buffer.h"

namespace qkv {

namespace {

constexpr const char* kFunction = "linear";

// Messages are put together only once something is wrong.
void check_as_in_weight(const char* what, Index got, Index expected) {
  if (got != expected) throw_invalid(kFunction, what, got, std::to_string(expected) + " as in weight");
}

void check_layer(const LinearView& layer) {
  constexpr Index kLargestWidth = Index{1} << 40;  // scratch is a multiple of it
  const Index in_dim = layer.in_dim();
  check(layer.out_dim() >= 1, kFunction, "weight.shape[0] (out_dim)", layer.out_dim(), ">= 1");
  check(in_dim >= 1 && in_dim <= kLargestWidth, kFunction, "weight.shape[1] (in_dim)", in_dim, "1 to 2^40");
  if (in_dim > 1) check_equal<Index>(kFunction, "weight.stride[1] (last axis)", layer.weight.stride(1), 1);
  if (!layer.bias) return;
  check_as_in_weight("bias.shape[0] (out_dim)", layer.bias->shape(0), layer.out_dim());
  if (layer.out_dim() > 1) check_equal<Index>(kFunction, "bias.stride[0]", layer.bias->stride(0), 1);
}

void check_input(const LinearView& layer, CView<3> x) {
  check_layer(layer);
  check_as_in_weight("x.shape[2] (in_dim)", x.shape(2), layer.in_dim());
  if (x.shape(2) > 1) check_equal<Index>(kFunction, "x.stride[2] (last axis)", x.stride(2), 1);
}

// Whether [batch, len, dim] reads as [batch * len, dim] with one stride between rows.
template <class T>
bool collapses(const TensorView<T, 3>& x) {
  return x.shape(0) <= 1 || x.shape(1) <= 1 || x.stride(0) == x.shape(1) * x.stride(1);
}

template <class T>
TensorView<T, 3> collapse(const TensorView<T, 3>& x) {
  const Index row_stride = x.shape(1) == 1 ? x.stride(0) : x.stride(1);
  return {x.data(), {1, x.shape(0) * x.shape(1), x.shape(2)}, {0, row_stride, x.stride(2)}};
}

}  // namespace

void linear_into(const LinearView& layer, View<3> out, CView<3> x, Activation activation, const Run& run) {
  check_input(layer, x);
  const Shape<3> expected{x.shape(0), x.shape(1), layer.out_dim()};
  if (out.shape() != expected) throw_invalid(kFunction, "out.shape", to_string<3>(out.shape()), to_string<3>(expected));
  if (out.shape(2) > 1) check_equal<Index>(kFunction, "out.stride[2] (last axis)", out.stride(2), 1);
  if (out.size() == 0) return;

  // One product where the batch entries lie one after the other, else one for each of them.
  if (collapses(x) && collapses(out)) {
    x = collapse(x);
    out = collapse(out);
  }
  const auto plan = kernels::plan_linear(x.shape(1), layer.in_dim(), layer.out_dim());
  Executor& executor = executor_of(run);
  AlignedBuffer<float> workspace(plan.workspace_floats * executor.num_workers());
  executor.run(x.shape(0) * plan.num_tasks, [&](Index task, Index worker) {
    const Index b = task / plan.num_tasks;
    const kernels::LinearArgs args{.x = x.select(0, b),
                                   .weight = layer.weight,
                                   .bias = layer.bias ? layer.bias->data() : nullptr,
                                   .y = out.select(0, b),
                                   .activation = activation};
    kernels::linear_task(args, plan, task % plan.num_tasks, workspace.data() + worker * plan.workspace_floats);
  });
}

Tensor<float, 3> forward(const Linear& layer, CView<3> x, const Run& run) {
  check_input(layer, x);
  Tensor<float, 3> out({x.shape(0), x.shape(1), layer.out_dim()});
  linear_into(layer, out, x, Activation::kNone, run);
  return out;
}

}  // namespace qkv
