// What the fused kernel works on: a panel of queries of one head, and the scratch that a worker's panels share.

#if defined(QKV_KERNELS_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_PANEL_INL_H_
#undef QKV_KERNELS_PANEL_INL_H_
#else
#define QKV_KERNELS_PANEL_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "hwy/highway.h"
#include "qkv/kernels/attention_args.h"
#include "qkv/kernels/math-inl.h"
#include "qkv/kernels/tile_mask.h"
#include "qkv/kernels/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels {
namespace HWY_NAMESPACE {

/// Keys in a tile: a tile of scores, 96 x 24 floats or 96 x 12 doubles on AVX2, is 9 KiB, and beside the panel's Q^T (6 KiB at head_dim 64) it leaves half
/// of a 32 KiB L1 to K and V. On AVX2 48 to 192 were within two points of each other at head_dim 64, and 96 beat 144 by
/// four at 128.
inline constexpr Index kKeyTile = 96;

template <class T>
inline constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();

/// Masks of a tile are kept as bits, 32 keys to a word. A word is as wide as an element, whose lane it shares: that of a double is half empty.
inline constexpr Index kWordBits = 32, kWordsPerTile = kKeyTile / kWordBits;
template <class T>
using MaskWord = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

/// What a panel sees of some keys: those of a tile, or part of them.
template <class T>
struct Visibility {
  bool is_full = true;  ///< every query sees every key: nothing to mask
  /// Each lane sees the keys key_begin <= j < key_end, and the words count for nothing; otherwise only the words count.
  bool by_range = true;
  Steps steps;                   ///< how far each vector of queries has to go
  KeyRange common[kMaxVectors];  ///< what all lanes of a vector see, by_range
  HWY_ALIGN T key_begin[kMaxPanelWidth<T>], key_end[kMaxPanelWidth<T>];
  HWY_ALIGN MaskWord<T> words[kWordsPerTile][kMaxPanelWidth<T>];  ///< bit j % 32 of words[j / 32][lane]: sees key j

  /// Whether all lanes of the vectors first .. end-1 see all of `keys`, by_range.
  HWY_INLINE bool all_see(int first, int end, KeyRange keys) const {
    for (int v = first; v < end; ++v)
      if (!common[v].contains(keys)) return false;
    return true;
  }
};

/// Tiles of which a panel packs `keep` at once: one by one, the few cache lines of each row would be waited for alone. 16 gave nothing more.
inline constexpr Index kKeepTiles = 8;

/// The least and the largest of some document ids; none yet if least > largest.
struct IdSpan {
  Index least = std::numeric_limits<Index>::max(), largest = std::numeric_limits<Index>::min();

  void add(Index id) { least = std::min(least, id), largest = std::max(largest, id); }
  bool is_one() const { return least == largest; }
  bool overlaps(IdSpan other) const { return least <= other.largest && other.least <= largest; }
  friend bool operator==(IdSpan, IdSpan) = default;
};

/// Head number n of a call, n < batch * num_heads: where its queries, keys and values lie.
template <class T>
struct Head {
  Head(const AttentionArgs<T>& args_of_call, Index n)
      : args(args_of_call), b(n / args.num_heads()), h(n % args.num_heads()), kv_head(h / args.group_size()) {}

  const AttentionArgs<T>& args;
  Index b, h, kv_head;

  const T* key(Index j) const { return &args.k(b, kv_head, j, 0); }
  const T* value(Index j) const { return &args.v(b, kv_head, j, 0); }
  const T* query(Index i) const { return &args.q(b, h, i, 0); }
  const T* bias(Index i, Index j) const { return &(*args.attn_bias)(b, h, i, j); }
};

/// What a raw score is multiplied by to get t, its value in log2 units: scale * log2(e), or just scale where a cap follows. It comes in when a
/// product is complete: as part of Q^T it would round every term, all terms the same way where queries or keys repeat, and products that are exact
/// in plain code would stray (by 7 tolerances at head_dim 128, q = 1 throughout and keys of 0, 1 and 2).
template <class T>
inline T score_factor(const AttentionArgs<T>& args) {
  return args.softcap ? args.scale : args.scale * kLog2E<T>;
}

/// Up to kMaxPanelWidth queries of one head. Lanes past the last query repeat its place with q = 0; their results go
/// nowhere. Left unset until start_panel(): a task has room for more panels than it may use, and calls may be tiny.
template <class T>
struct Panel {
  Index first_query, num_queries;
  Index width;  ///< lanes: num_queries rounded up to whole vectors
  PanelRange range;
  Index key_begin[kMaxPanelWidth<T>], key_end[kMaxPanelWidth<T>];  ///< of each query: keys in its range
  Index position[kMaxPanelWidth<T>];                               ///< of each lane's query among the keys
  IdSpan documents;                                                ///< of the queries
  KeyRange kept;                                                   ///< the keys of keep_words

  T* qt;             ///< [head_dim, width]: Q^T; in cosine scoring of length 1
  T* ot;             ///< [v_head_dim, width]
  bool has_values;   ///< whether ot holds a sum; until then it is unset and counts as 0
  bool is_climbing;  ///< whether tiles have lately turned out to lie too far above row_max to be weighed at once
  T* row_max;        ///< [width]
  T* row_sum;        ///< [width]
  T* moment;         ///< [width]: sum_j 2^(t_j - row_max) (t_j - row_max), for the entropy
  T* key_sum;        ///< [width]: row_sum without the sink, known once all keys are folded

  /// [kKeepTiles * kWordsPerTile, width]: `keep` as in Visibility::words, from key kept.begin on.
  MaskWord<T>* keep_words;

  T* hidden;      ///< [hidden_dim, width]: a = w_q q, additive scoring only
  T* exp_hidden;  ///< [hidden_dim, width]: e^(2a)
  T* wildness;    ///< [width]: 0 where no e^(2a) of the lane is anywhere near overflow, else 1
  bool is_tame;   ///< whether wildness is 0 throughout
};

/// What is to be known of a tile of keys, computed once for all panels of a task.
template <class T>
struct KeyFeatures {
  Index first_key = 0;
  IdSpan documents;        ///< of the keys
  T* unit_keys = nullptr;  ///< [kKeyTile, head_dim]: k / |k|. Cosine scoring only
  T* w_k = nullptr;        ///< [panels, k_head_dim, kMaxPanelWidth]: w_k^T in panels, of the whole task. Additive only,
                           ///< as all below
  T* hidden = nullptr;     ///< [panels, kKeyTile, kMaxPanelWidth]: b = w_k k
  T* exp_hidden = nullptr;      ///< the same shape: e^(2b)
  bool is_tame[kKeyTile] = {};  ///< no e^(2b) of the key is anywhere near overflow, nor any w_v
};

/// Scratch that all panels of a worker share.
template <class T>
struct TileScratch {
  T* scores = nullptr;  ///< [kKeyTile, width]: t, then 2^(t - row_max)
  T* bias = nullptr;    ///< [kKeyTile, width]: log2(e) * attn_bias
  T* values = nullptr;  ///< [kKeyTile, v_head_dim]: a copy of V without its NaN and Inf
  KeyFeatures<T> keys;
  Visibility<T> visibility;
  Prefetch<T> prefetch;
};

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#endif  // QKV_KERNELS_PANEL_INL_H_
