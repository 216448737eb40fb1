// One task of the fused forward kernel: some panels of queries of a head, or all of some short heads, against all keys that they see.

#if defined(QKV_KERNELS_ATTENTION_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_ATTENTION_FORWARD_INL_H_
#undef QKV_KERNELS_ATTENTION_FORWARD_INL_H_
#else
#define QKV_KERNELS_ATTENTION_FORWARD_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <numeric>

#include "hwy/highway.h"
#include "qkv/kernels/attention_forward.h"
#include "qkv/kernels/attention_panel-inl.h"
#include "qkv/kernels/forward_plan-inl.h"
#include "qkv/kernels/scratch-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels {
namespace HWY_NAMESPACE {

// Where the panel's queries stand and what the structural masks let them see. Calls may be tiny: what is the same for all queries is found once.
template <class T>
void place_queries(const Head<T>& head, Panel<T>& panel) {
  const auto& args = head.args;
  const Index count = panel.num_queries;
  PanelRange range{.any = {}, .common = {0, args.kv_len()}};
  if (args.causal || args.window_left || args.window_right || args.valid_lens || args.sequences) {
    for (Index i = 0; i < count; ++i) {
      const QueryPlace place = place_query(args, head.b, panel.first_query + i);
      panel.key_begin[i] = place.keys.begin;
      panel.key_end[i] = place.keys.end;
      panel.position[i] = place.position;
      range.add(place.keys);
    }
  } else {
    const QueryPlace place = place_query(args, head.b, panel.first_query);
    std::fill_n(panel.key_begin, count, place.keys.begin);
    std::fill_n(panel.key_end, count, place.keys.end);
    std::iota(panel.position, panel.position + count, place.position);
    range.add(place.keys);
  }
  panel.range = range;
  std::fill(panel.position + count, panel.position + panel.width, panel.position[count - 1]);
  IdSpan documents;
  for (Index i = 0; args.documents && i < count; ++i) documents.add(args.documents->q(head.b, panel.first_query + i));
  panel.documents = documents;
}

template <class T>
void start_panel(const Head<T>& head, PanelCut cut, Carver<T>& carver, Panel<T>& panel) {
  const auto& args = head.args;
  panel.first_query = cut.first;
  panel.num_queries = cut.count;
  panel.width = round_up(cut.count, kLanes<T>);
  panel.kept = {};
  place_queries(head, panel);
  carve_panel(args, carver, panel);
  load_queries(head, panel);
  reset_softmax(panel);
}

// The tiles of a grid that starts at key `origin`, as far as they meet `keys`.
template <class Step>
HWY_INLINE void for_each_tile_from(Index origin, KeyRange keys, const Step& step) {
  for (Index begin = origin + (keys.begin - origin) / kKeyTile * kKeyTile; begin < keys.end; begin += kKeyTile)
    step(intersect(keys, {begin, begin + kKeyTile}));
}

// All tiles that meet `keys`. The grid starts at key 0, in a ragged batch at the first key of each sequence, for every panel, so the way a
// row's sums are cut does not depend on other rows or sequences.
template <class T, class Step>
HWY_INLINE void for_each_tile(const AttentionArgs<T>& args, KeyRange keys, const Step& step) {
  if (keys.empty()) return;
  if (!args.sequences) return for_each_tile_from(0, keys, step);
  const auto& bounds = args.sequences->k;
  for (Index s = last_at_most(bounds, keys.begin); s + 1 < bounds.shape(0) && bounds(s) < keys.end; ++s) {
    const KeyRange part = intersect(keys, {bounds(s), bounds(s + 1)});
    if (!part.empty()) for_each_tile_from(bounds(s), part, step);
  }
}

// step<kVectors>(tile) for all tiles that the panel sees, their keys loaded.
template <class T, class Step>
HWY_INLINE void for_each_tile_of(const Head<T>& head, const Panel<T>& panel, TileScratch<T>& scratch,
                                 const Step& step) {
  for_each_tile(head.args, panel.range.any, [&](KeyRange tile) {
    load_keys(head, tile, scratch.keys);
    with_vectors<T>(panel.width, [&]<int kVectors>() { step.template operator()<kVectors>(tile); });
  });
}

// Once all keys are folded: takes in the sink, and lets a panel that saw none have sums of 0.
template <class T>
void close_sums(const Head<T>& head, Panel<T>& panel) {
  set_values(panel, head.args.v_head_dim());
  const auto& sinks = head.args.sinks;
  if (!sinks || (*sinks)(head.h) == kMinusInfinity<T>) {
    std::copy_n(panel.row_sum, panel.width, panel.key_sum);
    return;
  }
  with_vectors<T>(panel.width,
                  [&]<int kVectors>() { add_sink<kVectors>((*sinks)(head.h), head.args.v_head_dim(), panel); });
}

// Folds all tiles again with the values guarded: the bits of a panel in which no value was NaN or Inf, unless a visible one is.
template <class T>
void refold_guarded(const Head<T>& head, Panel<T>& panel, Folding folding, TileScratch<T>& scratch) {
  reset_softmax(panel);
  folding.guard_values = true;
  for_each_tile_of(head, panel, scratch,
                   [&]<int kVectors>(KeyRange tile) { fold_tile<kVectors>(head, panel, tile, folding, scratch); });
}

// ot from the final weights, which are at most 1: values that overflow an unnormalised sum do not overflow this one.
template <class T>
void sum_normalised(const Head<T>& head, Panel<T>& panel, TileScratch<T>& scratch) {
  const Index v_head_dim = head.args.v_head_dim();
  panel.has_values = false;
  for_each_tile_of(head, panel, scratch, [&]<int kVectors>(KeyRange tile) {
    weigh_tile<kVectors>(head, panel, tile, scratch);
    if (head.args.dropout) drop_weights<kVectors>(head, panel, tile, scratch.scores);
    add_guarded_values<kVectors>(head, panel, tile, scratch);
  });
  set_values(panel, v_head_dim);
  scale_values(panel, v_head_dim, keep_scale(head.args));
}

// Writes out. A NaN or Inf in it may be 0 * NaN of an excluded value, an overflow of the unnormalised sum, or rightly there: such panels are
// folded again, and the rows in which it stays are summed another way. The other rows keep the bits that they would have without it.
template <class T>
void finish_values(const Head<T>& head, Panel<T>& panel, TensorView<T, 4> out, Folding folding,
                   TileScratch<T>& scratch) {
  const Index v_head_dim = head.args.v_head_dim();
  T* const rows = &out(head.b, head.h, panel.first_query, 0);
  const Index stride = out.stride(2);
  close_sums(head, panel);
  if (write_values(panel, v_head_dim, keep_scale(head.args), rows, stride)) return;
  refold_guarded(head, panel, folding, scratch);
  close_sums(head, panel);
  if (write_values(panel, v_head_dim, keep_scale(head.args), rows, stride)) return;
  bool row_is_finite[kMaxPanelWidth<T>];
  for (Index i = 0; i < panel.num_queries; ++i)
    row_is_finite[i] =
        std::all_of(rows + i * stride, rows + i * stride + v_head_dim, [](T x) { return std::isfinite(x); });
  sum_normalised(head, panel, scratch);
  for (Index i = 0; i < panel.num_queries; ++i) {
    if (row_is_finite[i]) continue;
    for (Index c = 0; c < v_head_dim; ++c) rows[i * stride + c] = panel.ot[c * panel.width + i];
  }
}

template <class T>
void write_attn_weights(const Head<T>& head, Panel<T>& panel, TileScratch<T>& scratch, TensorView<T, 4> weights) {
  T* const rows = &weights(head.b, head.h, panel.first_query, 0);
  const Index stride = weights.stride(2);
  const auto fill_zero = [&](Index begin, Index end) {
    for (Index i = 0; i < panel.num_queries; ++i) std::fill(rows + i * stride + begin, rows + i * stride + end, T{0});
  };
  const KeyRange any = panel.range.any;
  fill_zero(0, any.begin);
  fill_zero(any.end, head.args.kv_len());
  for_each_tile_of(head, panel, scratch, [&]<int kVectors>(KeyRange tile) {
    weigh_tile<kVectors>(head, panel, tile, scratch);
    unpack_panel(scratch.scores, panel.width, panel.num_queries, tile.end - tile.begin, rows + tile.begin, stride,
                 [](Index, Vec<T> v) { return v; });
  });
}

template <class T>
void finish_panel(const Head<T>& head, Panel<T>& panel, Folding folding, const AttentionOutput<T>& out,
                  TileScratch<T>& scratch) {
  finish_values(head, panel, out.out, folding, scratch);
  for (Index i = 0; i < panel.num_queries; ++i) {
    if (out.lse) (*out.lse)(head.b, head.h, panel.first_query + i) = lane_lse(panel, i);
    if (out.entropy) (*out.entropy)(head.b, head.h, panel.first_query + i) = lane_entropy(panel, i);
  }
  if (out.attn_weights && head.args.kv_len() > 0) write_attn_weights(head, panel, scratch, *out.attn_weights);
}

// The part of a head that a task works on.
template <class T>
struct Share {
  const ForwardPlan& plan;
  Head<T> head;
  const Head<T>* next_head;  // what comes after it in the same task, or null
  Index first_panel, num_panels;
};

// What panel p fetches while it works on a tile: its bias for the tile that follows, and its part of that tile's keys and values; with its own last tile
// where its outputs go, and its part of the next head's first tile, and its queries there. A guess, not a read: the next head may see other keys, and a panel
// that does not see a tile leaves its part. Outputs: 8 to 29 % of a call at 32 x 12 heads of 64 and 128 tokens on AVX-512, 5 % at 4 x 12 of 512, 1 to 5 % at
// 8 of 512 and 1024.
template <class T>
Prefetch<T> fetch_ahead(const Share<T>& share, Index p, const Panel<T>& panel, KeyRange tile, KeyRange keys,
                        const TensorView<T, 4>& out) {
  const Head<T>& head = share.head;
  const auto& args = head.args;
  Prefetch<T> prefetch;
  const auto add_keys = [&](const Head<T>& of, Index begin) {
    const Index count = std::min(begin + kKeyTile, keys.end) - begin;
    const Index first = begin + count * p / share.num_panels, end = begin + count * (p + 1) / share.num_panels;
    prefetch.add(of.key(first), args.k.stride(2), end - first, args.k_head_dim());
    prefetch.add(of.value(first), args.v.stride(2), end - first, args.v_head_dim());
  };
  const KeyRange seen = intersect(tile, panel.range.any),
                 next_seen{tile.end, std::min(tile.end + kKeyTile, panel.range.any.end)};
  if (share.plan.fetches_ahead && tile.end < keys.end) add_keys(head, tile.end);
  if (share.plan.fetches_outputs && next_seen.empty())
    prefetch.add(&out(head.b, head.h, panel.first_query, 0), out.stride(2), panel.num_queries, args.v_head_dim());
  if (const Head<T>* next = share.next_head; next && share.plan.fetches_ahead && next_seen.empty()) {
    if (next->key(0) != head.key(0)) add_keys(*next, keys.begin);  // heads of a group share them
    prefetch.add(next->query(panel.first_query), args.q.stride(2), panel.num_queries, args.head_dim());
  }
  if (args.attn_bias && args.attn_bias->stride(3) == 1 && !next_seen.empty()) {
    const Index stride = args.attn_bias->stride(2), num_rows = stride == 0 ? 1 : panel.num_queries;
    prefetch.add(head.bias(panel.first_query, next_seen.begin), stride, num_rows, next_seen.end - next_seen.begin);
  }
  const Index num_vectors = panel.width / kLanes<T>, num_keys = seen.end - seen.begin;
  const Index score_turns = args.additive() ? 0 : count_turns(num_vectors, num_keys, args.head_dim());
  prefetch.spread_over(score_turns + count_turns(num_vectors, args.v_head_dim(), num_keys));
  return prefetch;
}

template <class T>
void attend(const Share<T>& share, const AttentionOutput<T>& out, TileScratch<T>& scratch, Carver<T> carver) {
  const Head<T>& head = share.head;
  const auto& args = head.args;
  Panel<T> panels[kPanelsPerTask];
  KeyRange keys;
  for (Index p = 0; p < share.num_panels; ++p) {
    start_panel(head, cut_panel<T>(args.q_len(), share.first_panel + p), carver, panels[p]);
    const KeyRange any = panels[p].range.any;
    if (any.empty()) continue;
    keys = keys.empty() ? any : KeyRange{std::min(keys.begin, any.begin), std::max(keys.end, any.end)};
  }

  const Folding folding{.want_entropy = out.entropy.has_value()};
  for_each_tile(args, keys, [&](KeyRange shared_tile) {
    load_keys(head, shared_tile, scratch.keys);
    for (Index p = 0; p < share.num_panels; ++p) {
      const KeyRange tile = intersect(shared_tile, panels[p].range.any);
      if (tile.empty()) continue;
      scratch.prefetch = fetch_ahead(share, p, panels[p], shared_tile, keys, out.out);
      with_vectors<T>(panels[p].width,
                      [&]<int kVectors>() { fold_tile<kVectors>(head, panels[p], tile, folding, scratch); });
    }
  });
  scratch.prefetch = {};
  for (Index p = 0; p < share.num_panels; ++p) finish_panel(head, panels[p], folding, out, scratch);
}

template <class T>
void task(const AttentionArgs<T>& args, const AttentionOutput<T>& out, const ForwardPlan& plan, Index task_index,
          T* workspace) {
  // Head by head, so that keys and values are still in L2, and in a head the longest task first: causal that of the last panels, which have the
  // most keys, but every second one before the others, so that two workers who share one head have as much to do; otherwise the last are what is left over.
  const Index turn = task_index % plan.tasks_per_head, half = ceil_div(plan.tasks_per_head, Index{2});
  const Index rank = turn < half ? 2 * turn : 2 * (turn - half) + 1;
  const Index cut = args.causal ? plan.tasks_per_head - 1 - rank : turn;
  const Index first_panel = cut * plan.panels_per_task;
  const Index num_panels = std::min(plan.panels_per_task, plan.num_panels - first_panel);
  const Index first_head = task_index / plan.tasks_per_head * plan.heads_per_task;
  const Index last_head = std::min(first_head + plan.heads_per_task, args.batch() * args.num_heads()) - 1;

  Carver<T> carver(workspace, plan.workspace_size);
  TileScratch<T> scratch = carve_scratch(args, carver);
  load_key_weights(args, scratch.keys);
  for (Index n = first_head; n < last_head; ++n) {
    const Head<T> next(args, n + 1);
    attend<T>({plan, Head<T>(args, n), &next, first_panel, num_panels}, out, scratch, carver);
  }
  attend<T>({plan, Head<T>(args, last_head), nullptr, first_panel, num_panels}, out, scratch, carver);
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#endif  // QKV_KERNELS_ATTENTION_FORWARD_INL_H_
