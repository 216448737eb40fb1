#include "qkv/kernels/attention_forward.h"
#include "qkv/kernels/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/attention_forward.cc"
#include "qkv/kernels/simd_targets.h"
// simd_targets.h comes first.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "qkv/kernels/attention_forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels {
namespace HWY_NAMESPACE {

ForwardPlan plan_f32(const ForwardShape& shape) {
  return plan<float>(shape);
}

void task_f32(const AttentionArgs<float>& args, const AttentionOutput<float>& out, const ForwardPlan& plan,
              Index task_index, float* workspace) {
  task(args, out, plan, task_index, workspace);
}

ForwardPlan plan_f64(const ForwardShape& shape) {
  return plan<double>(shape);
}

void task_f64(const AttentionArgs<double>& args, const AttentionOutput<double>& out, const ForwardPlan& plan,
              Index task_index, double* workspace) {
  task(args, out, plan, task_index, workspace);
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace qkv::kernels {

HWY_EXPORT(plan_f32);
HWY_EXPORT(task_f32);
HWY_EXPORT(plan_f64);
HWY_EXPORT(task_f64);

template <>
ForwardPlan plan_attention_forward<float>(const ForwardShape& shape) {
  apply_target_cap();
  return HWY_DYNAMIC_DISPATCH(plan_f32)(shape);
}

void attention_forward_task(const AttentionArgs<float>& args, const AttentionOutput<float>& out,
                            const ForwardPlan& plan, Index task, float* workspace) {
  HWY_DYNAMIC_DISPATCH(task_f32)(args, out, plan, task, workspace);
}

template <>
ForwardPlan plan_attention_forward<double>(const ForwardShape& shape) {
  apply_target_cap();
  return HWY_DYNAMIC_DISPATCH(plan_f64)(shape);
}

void attention_forward_task(const AttentionArgs<double>& args, const AttentionOutput<double>& out,
                            const ForwardPlan& plan, Index task, double* workspace) {
  HWY_DYNAMIC_DISPATCH(task_f64)(args, out, plan, task, workspace);
}

}  // namespace qkv::kernels

#endif  // HWY_ONCE
