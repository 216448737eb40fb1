// How a call is cut into tasks.

#if defined(QKV_KERNELS_FORWARD_PLAN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_FORWARD_PLAN_INL_H_
#undef QKV_KERNELS_FORWARD_PLAN_INL_H_
#else
#define QKV_KERNELS_FORWARD_PLAN_INL_H_
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "qkv/kernels/attention_forward.h"
#include "qkv/kernels/scratch-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels {
namespace HWY_NAMESPACE {

/// Panels of one task: 192 queries of floats on AVX2 share each tile of K and V while it is in L2. 8 instead of 4 gave 6 points
/// at head_dim 128 and q_len 4096, nothing at 64.
inline constexpr Index kPanelsPerTask = 8;
/// Fewer panels per task as long as there are fewer tasks than this: enough for a few threads to share evenly.
inline constexpr Index kEnoughTasks = 16;
/// Short heads that are fetched ahead are grouped, up to eight to a task (nobody fetches a task's first), as long as this many tasks remain.
inline constexpr Index kManyTasks = 64, kMostFetchedHeads = 8;
/// Tasks are not made smaller than this for the sake of more threads: multiplications, 3 us on AVX-512 and on AVX2, and to wake a thread takes as long.
template <class T>
inline constexpr double kLeastWork = 6000 * static_cast<double>(kLanes<T>);
/// Half of an L2, in elements: of 1 MiB where there is AVX-512, else of 512 KiB. Q^T and O^T of all panels of a task stay below it.
template <class T>
inline constexpr Index kHalfL2 = Index{kLanes<float> == 16 ? 512 : 256} * 1024 / Index{sizeof(T)};

template <class T>
Index count_worthwhile_tasks(const ForwardShape& shape) {
  constexpr double kMultiplicationsPerTanh = 16;  // half of a division, on AVX2 and AVX-512
  double work = static_cast<double>(shape.head_dim + shape.v_head_dim) +
                kMultiplicationsPerTanh * static_cast<double>(shape.hidden_dim);
  for (const Index n : {shape.batch, shape.num_heads, shape.q_len, shape.kv_len}) work *= static_cast<double>(n);
  return static_cast<Index>(std::clamp(work / kLeastWork<T>, 1.0, 1e9));
}

// Panels of a head that one task takes.
template <class T>
Index count_panels_per_task(const ForwardShape& shape, Index num_panels, Index worthwhile_tasks) {
  if (num_panels == 1) return 1;  // calls may be tiny, and would notice five divisions
  const Index fitting = std::max<Index>(1, kHalfL2<T> / panel_elements<T>(shape));
  const Index wanted_cuts = ceil_div(std::min(kEnoughTasks, worthwhile_tasks), shape.batch * shape.num_heads);
  const Index most_panels =
      std::min({kPanelsPerTask, fitting, ceil_div(num_panels, std::min(num_panels, wanted_cuts))});
  return ceil_div(num_panels, ceil_div(num_panels, most_panels));
}

template <class T>
ForwardPlan plan(const ForwardShape& shape) {
  ForwardPlan plan;
  const Index heads = shape.batch * shape.num_heads;
  if (heads == 0 || shape.q_len == 0) return plan;
  plan.num_panels = count_panels<T>(shape.q_len);
  const Index worthwhile_tasks = count_worthwhile_tasks<T>(shape);
  plan.panels_per_task = count_panels_per_task<T>(shape, plan.num_panels, worthwhile_tasks);
  plan.tasks_per_head = ceil_div(plan.num_panels, plan.panels_per_task);

  // Keys and values are fetched ahead if those of a head do not stay in half of an L2 from panel to panel, and if heads are short but do not stay in an L2
  // (the largest there are) from call to call; what it gives is in docs/kernels.md, "The next tile". Where they are in cache it costs, and 16 queries have
  // too little to do meanwhile.
  constexpr double kLargestL2 = 4.0 * 1024 * 1024 / sizeof(T);
  constexpr Index kFewQueries = 32;
  const double head_elements =
      static_cast<double>(shape.kv_len) * static_cast<double>(shape.k_head_dim + shape.v_head_dim);
  const bool is_long = head_elements > static_cast<double>(kHalfL2<T>);
  const bool has_many_short_heads = plan.tasks_per_head == 1 && shape.q_len >= kFewQueries && !is_long &&
                                    static_cast<double>(shape.batch * shape.num_kv_heads) * head_elements > kLargestL2;
  plan.fetches_ahead = is_long || has_many_short_heads;
  // The places of outputs also where queries, keys, values and outputs do not stay in two L2; where it does, 16 to 64 queries lose 2 to 7 %.
  const double num_rows = static_cast<double>(heads) * static_cast<double>(shape.q_len);
  const double all_elements = static_cast<double>(shape.batch * shape.num_kv_heads) * head_elements +
                              num_rows * static_cast<double>(shape.head_dim + shape.v_head_dim);
  const bool is_large = all_elements > 4 * static_cast<double>(kHalfL2<T>);
  plan.fetches_outputs = plan.fetches_ahead || (is_large && shape.q_len >= kFewQueries);
  if (has_many_short_heads) plan.heads_per_task = std::clamp<Index>(heads / kManyTasks, 1, kMostFetchedHeads);
  if (plan.tasks_per_head == 1) plan.heads_per_task = std::max(plan.heads_per_task, ceil_div(heads, worthwhile_tasks));
  plan.num_tasks = ceil_div(heads, plan.heads_per_task) * plan.tasks_per_head;
  // Every worker's share begins on a cache line.
  plan.workspace_size =
      round_up(plan.panels_per_task * panel_elements<T>(shape) + scratch_elements<T>(shape), kLineElements<T>);
  return plan;
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#endif  // QKV_KERNELS_FORWARD_PLAN_INL_H_
