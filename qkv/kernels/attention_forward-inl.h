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
#include <utility>

#include "hwy/highway.h"
#include "qkv/kernels/attention_forward.h"
#include "qkv/kernels/attention_panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels {
namespace HWY_NAMESPACE {

/// Panels of one task: 192 queries of floats on AVX2 share each tile of K and V while it is in L2. 8 instead of 4 gave 6 points
/// at head_dim 128 and q_len 4096, nothing at 64.
inline constexpr Index kPanelsPerTask = 8;
/// Fewer panels per task as long as there are fewer tasks than this: enough for a few threads to share evenly.
inline constexpr Index kEnoughTasks = 16;
/// Short heads that are fetched ahead are grouped, up to eight to a task, as long as this many tasks remain; of eight heads one is not fetched ahead.
inline constexpr Index kManyTasks = 64, kMostFetchedHeads = 8;
/// Tasks are not made smaller than this for the sake of more threads: multiplications, 3 us on AVX-512 and on AVX2, and to wake a thread takes as long.
template <class T>
inline constexpr double kLeastWork = 6000 * static_cast<double>(kLanes<T>);
/// Half of an L2, in elements: of 1 MiB where there is AVX-512, else of 512 KiB. Q^T and O^T of all panels of a task stay below it.
template <class T>
inline constexpr Index kHalfL2 = Index{kLanes<float> == 16 ? 512 : 256} * 1024 / Index{sizeof(T)};

template <class T>
Index panel_elements(const ForwardShape& shape) {
  constexpr Index kPerLane = 5;  // row_max, row_sum, moment, key_sum, wildness
  const Index keep_words = shape.has_keep ? kKeepTiles * kWordsPerTile : 0;
  return (shape.head_dim + shape.v_head_dim + kPerLane + keep_words + 2 * shape.hidden_dim) * kMaxPanelWidth<T>;
}

// Of the scores, the bias, the copy of the values, and what scoring keeps of the keys.
template <class T>
Index scratch_elements(const ForwardShape& shape) {
  const Index hidden = hidden_panels<T>(shape.hidden_dim) * kMaxPanelWidth<T>;
  return kKeyTile * (2 * kMaxPanelWidth<T> + round_up(shape.v_head_dim, kMaxPanelWidth<T>) +
                     round_up(shape.head_dim, kMaxPanelWidth<T>)) +
         hidden * (shape.k_head_dim + 2 * kKeyTile);
}

template <class T>
Index count_worthwhile_tasks(const ForwardShape& shape) {
  constexpr double kMultiplicationsPerTanh = 16;
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
  plan.num_panels = count_panels<T>(shape.q_len);
  const Index heads = shape.batch * shape.num_heads;
  if (heads == 0 || shape.q_len == 0) return plan;
  const Index worthwhile_tasks = count_worthwhile_tasks<T>(shape);
  plan.panels_per_task = count_panels_per_task<T>(shape, plan.num_panels, worthwhile_tasks);
  plan.tasks_per_head = ceil_div(plan.num_panels, plan.panels_per_task);

  // Keys and values are fetched ahead if those of a head do not stay in half of an L2 from panel to panel: 5 to 9 % of a call at head_dim 128 on Zen 3,
  // 1.5 % at 32, nothing at 64. And if heads are short but do not stay in an L2 from call to call: 3 to 20 % of 32 x 12 heads of 64 and 128 tokens on
  // AVX-512. Where they are in cache it cost 3 to 20 % (in bursts, which was before turns), and with 16 queries, which have too little to do meanwhile, 5 %.
  constexpr double kLargestL2 = 4.0 * 1024 * 1024 / sizeof(T);
  constexpr Index kFewQueries = 32;
  const double head_elements =
      static_cast<double>(shape.kv_len) * static_cast<double>(shape.k_head_dim + shape.v_head_dim);
  const bool is_long = head_elements > static_cast<double>(kHalfL2<T>);
  const bool has_many_short_heads = plan.tasks_per_head == 1 && shape.q_len >= kFewQueries && !is_long &&
                                    static_cast<double>(shape.batch * shape.num_kv_heads) * head_elements > kLargestL2;
  plan.fetches_ahead = is_long || has_many_short_heads;
  if (has_many_short_heads) plan.heads_per_task = std::clamp<Index>(heads / kManyTasks, 1, kMostFetchedHeads);
  if (plan.tasks_per_head == 1) plan.heads_per_task = std::max(plan.heads_per_task, ceil_div(heads, worthwhile_tasks));
  plan.num_tasks = ceil_div(heads, plan.heads_per_task) * plan.tasks_per_head;
  // Every worker's share begins on a cache line.
  plan.workspace_size =
      round_up(plan.panels_per_task * panel_elements<T>(shape) + scratch_elements<T>(shape), kLineElements<T>);
  return plan;
}

// Hands out the worker's scratch piece by piece; every piece a whole number of vectors.
template <class T>
class Carver {
 public:
  explicit Carver(T* memory) : next_(memory) {}
  T* take(Index size) { return std::exchange(next_, next_ + size); }

 private:
  T* next_;
};

template <class T>
TileScratch<T> carve_scratch(const AttentionArgs<T>& args, Carver<T>& carver) {
  TileScratch<T> scratch;
  scratch.scores = carver.take(kKeyTile * kMaxPanelWidth<T>);
  scratch.bias = carver.take(kKeyTile * kMaxPanelWidth<T>);
  scratch.values = carver.take(kKeyTile * round_up(args.v_head_dim(), kMaxPanelWidth<T>));
  scratch.keys.unit_keys = carver.take(kKeyTile * round_up(args.head_dim(), kMaxPanelWidth<T>));
  if (const auto* additive = args.additive()) {
    const Index hidden = hidden_panels<T>(additive->w_v.shape(0)) * kMaxPanelWidth<T>;
    scratch.keys.w_k = carver.take(hidden * args.k_head_dim());
    scratch.keys.hidden = carver.take(hidden * kKeyTile);
    scratch.keys.exp_hidden = carver.take(hidden * kKeyTile);
  }
  return scratch;
}

// Where the panel's queries stand and what the structural masks let them see. Calls may be tiny: what is the same for all queries is found once.
template <class T>
void place_queries(const Head<T>& head, Panel<T>& panel) {
  const auto& args = head.args;
  const Index count = panel.num_queries;
  PanelRange range{.any = {}, .all = {0, args.kv_len()}};
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
  panel.qt = carver.take(args.head_dim() * panel.width);
  panel.ot = carver.take(args.v_head_dim() * panel.width);
  panel.row_max = carver.take(panel.width);
  panel.row_sum = carver.take(panel.width);
  panel.moment = carver.take(panel.width);
  panel.key_sum = carver.take(panel.width);
  if (args.keep)
    panel.keep_words = reinterpret_cast<MaskWord<T>*>(carver.take(kKeepTiles * kWordsPerTile * panel.width));
  if (const auto* additive = args.additive()) {
    panel.hidden = carver.take(additive->w_v.shape(0) * panel.width);
    panel.exp_hidden = carver.take(additive->w_v.shape(0) * panel.width);
    panel.wildness = carver.take(panel.width);
  }
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
void refold_guarded(const Head<T>& head, Panel<T>& panel, bool want_entropy, TileScratch<T>& scratch) {
  reset_softmax(panel);
  const Folding folding{.want_entropy = want_entropy, .guard_values = true};
  for_each_tile(head.args, panel.range.any, [&](KeyRange tile) {
    load_keys(head, tile, scratch.keys);
    with_vectors<T>(panel.width, [&]<int kVectors>() { fold_tile<kVectors>(head, panel, tile, folding, scratch); });
  });
}

// ot from the final weights, which are at most 1: values that overflow an unnormalised sum do not overflow this one.
template <class T>
void sum_normalised(const Head<T>& head, Panel<T>& panel, TileScratch<T>& scratch) {
  const Index v_head_dim = head.args.v_head_dim();
  panel.has_values = false;
  for_each_tile(head.args, panel.range.any, [&](KeyRange tile) {
    load_keys(head, tile, scratch.keys);
    with_vectors<T>(panel.width, [&]<int kVectors>() {
      weigh_tile<kVectors>(head, panel, tile, scratch);
      if (head.args.dropout) drop_weights<kVectors>(head, panel, tile, scratch.scores);
      add_guarded_values<kVectors>(head, panel, tile, scratch);
    });
  });
  set_values(panel, v_head_dim);
  scale_values(panel, v_head_dim, keep_scale(head.args));
}

// Writes out. A NaN or Inf in it may be 0 * NaN of an excluded value, an overflow of the unnormalised sum, or rightly there: such panels are
// folded again, and the rows in which it stays are summed another way. The other rows keep the bits that they would have without it.
template <class T>
void finish_values(const Head<T>& head, Panel<T>& panel, TensorView<T, 4> out, bool want_entropy,
                   TileScratch<T>& scratch) {
  const Index v_head_dim = head.args.v_head_dim();
  T* const rows = &out(head.b, head.h, panel.first_query, 0);
  const Index stride = out.stride(2);
  close_sums(head, panel);
  if (write_values(panel, v_head_dim, keep_scale(head.args), rows, stride)) return;
  refold_guarded(head, panel, want_entropy, scratch);
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
  for_each_tile(head.args, any, [&](KeyRange tile) {
    load_keys(head, tile, scratch.keys);
    with_vectors<T>(panel.width, [&]<int kVectors>() { weigh_tile<kVectors>(head, panel, tile, scratch); });
    unpack_panel(scratch.scores, panel.width, panel.num_queries, tile.end - tile.begin, rows + tile.begin, stride,
                 [](Index, Vec<T> v) { return v; });
  });
}

template <class T>
void finish_panel(const Head<T>& head, Panel<T>& panel, const AttentionOutput<T>& out, TileScratch<T>& scratch) {
  finish_values(head, panel, out.out, out.entropy.has_value(), scratch);
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
// that does not see a tile leaves its part. Outputs: 8 to 29 % of a call at 32 x 12 heads of 64 and 128 tokens on AVX-512, 5 % at 4 x 12 of 512.
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
  if (share.plan.fetches_ahead && next_seen.empty()) {
    prefetch.add(&out(head.b, head.h, panel.first_query, 0), out.stride(2), panel.num_queries, args.v_head_dim());
    if (const Head<T>* next = share.next_head) {
      if (next->key(0) != head.key(0)) add_keys(*next, keys.begin);  // heads of a group share them
      prefetch.add(next->query(panel.first_query), args.q.stride(2), panel.num_queries, args.head_dim());
    }
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
  for (Index p = 0; p < share.num_panels; ++p) finish_panel(head, panels[p], out, scratch);
}

template <class T>
void task(const AttentionArgs<T>& args, const AttentionOutput<T>& out, const ForwardPlan& plan, Index task_index,
          T* workspace) {
  // Head by head, so that keys and values are still in L2, and in a head the longest task first: causal that of the last panels, which have the
  // most keys; otherwise the last are what is left over.
  const Index turn = task_index % plan.tasks_per_head;
  const Index cut = args.causal ? plan.tasks_per_head - 1 - turn : turn;
  const Index first_panel = cut * plan.panels_per_task;
  const Index num_panels = std::min(plan.panels_per_task, plan.num_panels - first_panel);
  const Index first_head = task_index / plan.tasks_per_head * plan.heads_per_task;
  const Index last_head = std::min(first_head + plan.heads_per_task, args.batch() * args.num_heads()) - 1;

  Carver<T> carver(workspace);
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
