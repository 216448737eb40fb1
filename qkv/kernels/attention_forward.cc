#include "qkv/kernels/attention_forward.h"

#include <algorithm>
#include <utility>

#include "qkv/kernels/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/attention_forward.cc"
#include "qkv/kernels/simd_targets.h"
// simd_targets.h comes first.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "qkv/kernels/attention_panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels {
namespace HWY_NAMESPACE {

/// Panels of one task: 192 queries on AVX2 share each tile of K and V while it is in L2. 8 instead of 4 gave 6 points
/// at head_dim 128 and q_len 4096, nothing at 64.
constexpr Index kPanelsPerTask = 8;
/// Fewer panels per task as long as there are fewer tasks than this: enough for a few threads to share evenly.
constexpr Index kEnoughTasks = 16;
/// Q^T and O^T of all panels of a task stay below this: half of a 512 KiB L2.
constexpr Index kPanelFloats = Index{64} * 1024;

Index floats_per_panel(const ForwardShape& shape) {
  return (shape.head_dim + shape.v_head_dim + 5 + 2 * shape.hidden_dim) * kMaxPanelWidth;
}

// Of the scores, the bias, the copy of the values, and what scoring keeps of the keys.
Index floats_per_worker(const ForwardShape& shape) {
  const Index hidden = hidden_panels(shape.hidden_dim) * kMaxPanelWidth;
  return kKeyTile * (2 * kMaxPanelWidth + round_up(shape.v_head_dim, kMaxPanelWidth) +
                     round_up(shape.head_dim, kMaxPanelWidth)) +
         hidden * (shape.k_head_dim + 2 * kKeyTile);
}

// Where panel p lies. All panels are three vectors wide, except that the last ones cover what is left: a remainder of
// more than three vectors but at most four is better cut 2 + 2 than 3 + 1, as narrow tiles are bound by loads.
struct PanelCut {
  Index first_query, num_queries;
};

PanelCut cut_panel(Index q_len, Index num_panels, Index p) {
  const Index first = p * kMaxPanelWidth, left = q_len - first;
  constexpr Index kTwoVectors = 2 * kLanes;
  if (p == num_panels - 2 && left <= 2 * kTwoVectors) return {first, kTwoVectors};
  if (p == num_panels - 1 && p > 0 && left + kMaxPanelWidth <= 2 * kTwoVectors) {
    const Index shifted = first - kMaxPanelWidth + kTwoVectors;
    return {shifted, q_len - shifted};
  }
  return {first, std::min(left, kMaxPanelWidth)};
}

ForwardPlan plan(const ForwardShape& shape) {
  ForwardPlan plan;
  plan.num_panels = ceil_div(shape.q_len, kMaxPanelWidth);
  const Index heads = shape.batch * shape.num_heads;
  if (heads == 0 || shape.q_len == 0) return plan;
  const Index fitting = std::max<Index>(1, kPanelFloats / floats_per_panel(shape));
  const Index wanted_cuts = std::min(plan.num_panels, ceil_div(kEnoughTasks, heads));
  plan.panels_per_task = std::min({kPanelsPerTask, fitting, ceil_div(plan.num_panels, wanted_cuts)});
  plan.tasks_per_head = ceil_div(plan.num_panels, plan.panels_per_task);
  plan.num_tasks = heads * plan.tasks_per_head;
  constexpr Index kLineFloats = 16;  // every worker's share begins on a cache line
  plan.workspace_floats =
      round_up(plan.panels_per_task * floats_per_panel(shape) + floats_per_worker(shape), kLineFloats);
  return plan;
}

// Hands out the worker's scratch piece by piece; every piece a whole number of vectors.
class Carver {
 public:
  explicit Carver(float* memory) : next_(memory) {}
  float* take(Index floats) { return std::exchange(next_, next_ + floats); }

 private:
  float* next_;
};

TileScratch carve_scratch(const AttentionArgs<float>& args, Carver& carver) {
  TileScratch scratch;
  scratch.scores = carver.take(kKeyTile * kMaxPanelWidth);
  scratch.bias = carver.take(kKeyTile * kMaxPanelWidth);
  scratch.values = carver.take(kKeyTile * round_up(args.v_head_dim(), kMaxPanelWidth));
  scratch.keys.unit_keys = carver.take(kKeyTile * round_up(args.head_dim(), kMaxPanelWidth));
  if (const auto* additive = args.additive()) {
    const Index hidden = hidden_panels(additive->w_v.shape(0)) * kMaxPanelWidth;
    scratch.keys.w_k = carver.take(hidden * args.k_head_dim());
    scratch.keys.hidden = carver.take(hidden * kKeyTile);
    scratch.keys.exp_hidden = carver.take(hidden * kKeyTile);
  }
  return scratch;
}

Panel start_panel(const Head& head, PanelCut cut, Carver& carver) {
  const auto& args = head.args;
  Panel panel;
  panel.first_query = cut.first_query;
  panel.num_queries = cut.num_queries;
  panel.width = round_up(cut.num_queries, kLanes);
  panel.range.all = {0, args.kv_len()};
  for (Index i = 0; i < panel.width; ++i) {
    const Index query = cut.first_query + std::min(i, cut.num_queries - 1);
    const QueryPlace place = place_query(args, head.b, query);
    panel.lane_range[i] = place.keys;
    panel.position[i] = place.position;
    panel.range.add(place.keys);
    if (args.documents) panel.documents.add(args.documents->q(head.b, query));
  }
  panel.qt = carver.take(args.head_dim() * panel.width);
  panel.ot = carver.take(args.v_head_dim() * panel.width);
  panel.row_max = carver.take(panel.width);
  panel.row_sum = carver.take(panel.width);
  panel.moment = carver.take(panel.width);
  panel.key_sum = carver.take(panel.width);
  if (const auto* additive = args.additive()) {
    panel.hidden = carver.take(additive->w_v.shape(0) * panel.width);
    panel.exp_hidden = carver.take(additive->w_v.shape(0) * panel.width);
    panel.wildness = carver.take(panel.width);
  }
  load_queries(head, panel);
  reset_softmax(panel, args.v_head_dim());
  return panel;
}

KeyRange intersect(KeyRange a, KeyRange b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

// The tiles of a grid that starts at key `origin`, as far as they meet `keys`.
template <class Step>
HWY_INLINE void for_each_tile_from(Index origin, KeyRange keys, const Step& step) {
  for (Index begin = origin + (keys.begin - origin) / kKeyTile * kKeyTile; begin < keys.end; begin += kKeyTile)
    step(intersect(keys, {begin, begin + kKeyTile}));
}

// All tiles that meet `keys`. The grid starts at key 0, in a ragged batch at the first key of each sequence, for every panel, so the way a
// row's sums are cut does not depend on other rows or sequences.
template <class Step>
HWY_INLINE void for_each_tile(const AttentionArgs<float>& args, KeyRange keys, const Step& step) {
  if (keys.empty()) return;
  if (!args.sequences) return for_each_tile_from(0, keys, step);
  const auto& bounds = args.sequences->k;
  for (Index s = last_at_most(bounds, keys.begin); s + 1 < bounds.shape(0) && bounds(s) < keys.end; ++s) {
    const KeyRange part = intersect(keys, {bounds(s), bounds(s + 1)});
    if (!part.empty()) for_each_tile_from(bounds(s), part, step);
  }
}

// Takes in the sink once all keys are folded.
void close_sums(const Head& head, Panel& panel) {
  const auto& sinks = head.args.sinks;
  if (!sinks || (*sinks)(head.h) == kMinusInfinity) {
    std::copy_n(panel.row_sum, panel.width, panel.key_sum);
    return;
  }
  with_vectors(panel.width,
               [&]<int kVectors>() { add_sink<kVectors>((*sinks)(head.h), head.args.v_head_dim(), panel); });
}

// Folds all tiles again with the values guarded: the bits of a panel in which no value was NaN or Inf, unless a visible one is.
void refold_guarded(const Head& head, Panel& panel, bool want_entropy, TileScratch& scratch) {
  reset_softmax(panel, head.args.v_head_dim());
  const Folding folding{.want_entropy = want_entropy, .guard_values = true};
  for_each_tile(head.args, panel.range.any, [&](KeyRange tile) {
    load_keys(head, tile, scratch.keys);
    with_vectors(panel.width, [&]<int kVectors>() { fold_tile<kVectors>(head, panel, tile, folding, scratch); });
  });
}

// ot from the final weights, which are at most 1: values that overflow an unnormalised sum do not overflow this one.
void sum_normalised(const Head& head, Panel& panel, TileScratch& scratch) {
  const Index v_head_dim = head.args.v_head_dim();
  std::fill_n(panel.ot, v_head_dim * panel.width, 0.0f);
  for_each_tile(head.args, panel.range.any, [&](KeyRange tile) {
    load_keys(head, tile, scratch.keys);
    with_vectors(panel.width, [&]<int kVectors>() {
      weigh_tile<kVectors>(head, panel, tile, scratch);
      if (head.args.dropout) drop_weights<kVectors>(head, panel, tile, scratch.scores);
      add_guarded_values<kVectors>(head, panel, tile, scratch);
    });
  });
  scale_values(panel, v_head_dim, keep_scale(head.args));
}

// ot <- out^T; whether all of it is finite.
bool close_values(const Head& head, Panel& panel) {
  close_sums(head, panel);
  bool all_finite = false;
  with_vectors(panel.width, [&]<int kVectors>() {
    all_finite = normalise<kVectors>(panel, head.args.v_head_dim(), keep_scale(head.args));
  });
  return all_finite;
}

// Writes out. A NaN or Inf in it may be 0 * NaN of an excluded value, an overflow of the unnormalised sum, or rightly there: such panels are
// folded again, and the rows in which it stays are summed another way. The other rows keep the bits that they would have without it.
void finish_values(const Head& head, Panel& panel, TensorView<float, 4> out, bool want_entropy, TileScratch& scratch) {
  const Index v_head_dim = head.args.v_head_dim();
  float* const rows = &out(head.b, head.h, panel.first_query, 0);
  bool all_finite = close_values(head, panel);
  if (!all_finite) {
    refold_guarded(head, panel, want_entropy, scratch);
    all_finite = close_values(head, panel);
  }
  unpack_panel(panel.ot, panel.width, panel.num_queries, v_head_dim, rows, out.stride(2));
  if (all_finite) return;
  bool row_is_finite[kMaxPanelWidth];
  for (Index i = 0; i < panel.num_queries; ++i) row_is_finite[i] = is_finite(panel, i, v_head_dim);
  sum_normalised(head, panel, scratch);
  for (Index i = 0; i < panel.num_queries; ++i) {
    if (row_is_finite[i]) continue;
    for (Index c = 0; c < v_head_dim; ++c) rows[i * out.stride(2) + c] = panel.ot[c * panel.width + i];
  }
}

void write_attn_weights(const Head& head, const Panel& panel, TileScratch& scratch, TensorView<float, 4> weights) {
  float* const rows = &weights(head.b, head.h, panel.first_query, 0);
  const Index stride = weights.stride(2);
  const auto fill_zero = [&](Index begin, Index end) {
    for (Index i = 0; i < panel.num_queries; ++i) std::fill(rows + i * stride + begin, rows + i * stride + end, 0.0f);
  };
  const KeyRange any = panel.range.any;
  fill_zero(0, any.begin);
  fill_zero(any.end, head.args.kv_len());
  for_each_tile(head.args, any, [&](KeyRange tile) {
    load_keys(head, tile, scratch.keys);
    with_vectors(panel.width, [&]<int kVectors>() { weigh_tile<kVectors>(head, panel, tile, scratch); });
    unpack_panel(scratch.scores, panel.width, panel.num_queries, tile.end - tile.begin, rows + tile.begin, stride);
  });
}

void finish_panel(const Head& head, Panel& panel, const AttentionOutput<float>& out, TileScratch& scratch) {
  finish_values(head, panel, out.out, out.entropy.has_value(), scratch);
  for (Index i = 0; i < panel.num_queries; ++i) {
    if (out.lse) (*out.lse)(head.b, head.h, panel.first_query + i) = lane_lse(panel, i);
    if (out.entropy) (*out.entropy)(head.b, head.h, panel.first_query + i) = lane_entropy(panel, i);
  }
  if (out.attn_weights && head.args.kv_len() > 0) write_attn_weights(head, panel, scratch, *out.attn_weights);
}

// A head whose keys and values fit in half of a 512 KiB L2 is there after the first panel; a larger one has its next tile fetched. On Zen 3 that gave
// 5 to 9 % of a call at head_dim 128, 1.5 % at 32 and nothing at 64, and cost 3 % at q_len 128 before it was left out there.
constexpr Index kFetchFromFloats = Index{64} * 1024;

// What follows `tile` in [.., end), for num_panels panels to fetch.
NextTile tile_after(const Head& head, KeyRange tile, Index end, Index num_panels) {
  const auto& args = head.args;
  NextTile next;
  const Index begin = std::min(tile.end, end);
  if (begin == end || args.kv_len() * (args.k_head_dim() + args.v_head_dim()) <= kFetchFromFloats) return next;
  const auto lines = [](Index floats) { return ceil_div(floats, Index{16}); };
  next.num_rows = std::min(end - begin, kKeyTile);
  next.k = head.key(begin);
  next.v = head.value(begin);
  next.k_stride = args.k.stride(2);
  next.v_stride = args.v.stride(2);
  next.k_lines = lines(args.k_head_dim());
  next.num_lines = next.k_lines + lines(args.v_head_dim());
  next.step = num_panels;
  return next;
}

void task(const AttentionArgs<float>& args, const AttentionOutput<float>& out, const ForwardPlan& plan,
          Index task_index, float* workspace) {
  // The last panels of a causal head have the most keys: they come first.
  const Index head_index = task_index % (args.batch() * args.num_heads());
  const Index cut = plan.tasks_per_head - 1 - task_index / (args.batch() * args.num_heads());
  const Head head{args, head_index / args.num_heads(), head_index % args.num_heads()};
  const Index first_panel = cut * plan.panels_per_task;
  const Index num_panels = std::min(plan.panels_per_task, plan.num_panels - first_panel);

  Carver carver(workspace);
  TileScratch scratch = carve_scratch(args, carver);
  Panel panels[kPanelsPerTask];
  KeyRange keys;
  for (Index p = 0; p < num_panels; ++p) {
    panels[p] = start_panel(head, cut_panel(args.q_len(), plan.num_panels, first_panel + p), carver);
    const KeyRange any = panels[p].range.any;
    if (any.empty()) continue;
    keys = keys.empty() ? any : KeyRange{std::min(keys.begin, any.begin), std::max(keys.end, any.end)};
  }

  const Folding folding{.want_entropy = out.entropy.has_value()};
  load_key_weights(args, scratch.keys);
  for_each_tile(args, keys, [&](KeyRange shared_tile) {
    load_keys(head, shared_tile, scratch.keys);
    scratch.next = tile_after(head, shared_tile, keys.end, num_panels);
    for (Index p = 0; p < num_panels; ++p) {
      scratch.next.first = p;
      const KeyRange tile = intersect(shared_tile, panels[p].range.any);
      if (tile.empty()) continue;
      with_vectors(panels[p].width,
                   [&]<int kVectors>() { fold_tile<kVectors>(head, panels[p], tile, folding, scratch); });
    }
  });
  scratch.next = {};
  for (Index p = 0; p < num_panels; ++p) finish_panel(head, panels[p], out, scratch);
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace qkv::kernels {

HWY_EXPORT(plan);
HWY_EXPORT(task);

ForwardPlan plan_attention_forward(const ForwardShape& shape) {
  apply_target_cap();
  return HWY_DYNAMIC_DISPATCH(plan)(shape);
}

void attention_forward_task(const AttentionArgs<float>& args, const AttentionOutput<float>& out,
                            const ForwardPlan& plan, Index task_index, float* workspace) {
  HWY_DYNAMIC_DISPATCH(task)(args, out, plan, task_index, workspace);
}

}  // namespace qkv::kernels

#endif  // HWY_ONCE
