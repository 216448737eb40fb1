// What a worker keeps in its scratch: how much it is, and what lies where.

#if defined(QKV_KERNELS_SCRATCH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_SCRATCH_INL_H_
#undef QKV_KERNELS_SCRATCH_INL_H_
#else
#define QKV_KERNELS_SCRATCH_INL_H_
#endif

#include <cassert>
#include <utility>

#include "hwy/highway.h"
#include "qkv/kernels/attention_forward.h"
#include "qkv/kernels/scoring-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels {
namespace HWY_NAMESPACE {

/// Hands out the worker's scratch piece by piece; every piece a whole number of vectors.
template <class T>
class Carver {
 public:
  Carver(T* memory, Index size) : next_(memory), end_(memory + size) {}
  T* take(Index size) {
    assert(size <= end_ - next_);
    return std::exchange(next_, next_ + size);
  }

 private:
  T *next_, *end_;
};

/// What carve_panel() takes at most.
template <class T>
Index panel_elements(const ForwardShape& shape) {
  constexpr Index kPerLane = 5;  // row_max, row_sum, moment, key_sum, wildness
  const Index keep_words = shape.has_keep ? kKeepTiles * kWordsPerTile : 0;
  return (shape.head_dim + shape.v_head_dim + kPerLane + keep_words + 2 * shape.hidden_dim) * kMaxPanelWidth<T>;
}

/// The places of a panel's sums.
template <class T>
void carve_panel(const AttentionArgs<T>& args, Carver<T>& carver, Panel<T>& panel) {
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
}

/// What carve_scratch() takes.
template <class T>
Index scratch_elements(const ForwardShape& shape) {
  const Index hidden = hidden_panels<T>(shape.hidden_dim) * kMaxPanelWidth<T>;
  return kKeyTile * (2 * kMaxPanelWidth<T> + shape.v_head_dim + shape.head_dim) +
         hidden * (shape.k_head_dim + 2 * kKeyTile);
}

/// Places for the scores, the bias, the copy of the values, and what scoring keeps of the keys.
template <class T>
TileScratch<T> carve_scratch(const AttentionArgs<T>& args, Carver<T>& carver) {
  TileScratch<T> scratch;
  scratch.scores = carver.take(kKeyTile * kMaxPanelWidth<T>);
  scratch.bias = carver.take(kKeyTile * kMaxPanelWidth<T>);
  scratch.values = carver.take(kKeyTile * args.v_head_dim());
  scratch.keys.unit_keys = carver.take(kKeyTile * args.head_dim());
  if (const auto* additive = args.additive()) {
    const Index hidden = hidden_panels<T>(additive->w_v.shape(0)) * kMaxPanelWidth<T>;
    scratch.keys.w_k = carver.take(hidden * args.k_head_dim());
    scratch.keys.hidden = carver.take(hidden * kKeyTile);
    scratch.keys.exp_hidden = carver.take(hidden * kKeyTile);
  }
  return scratch;
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#endif  // QKV_KERNELS_SCRATCH_INL_H_
