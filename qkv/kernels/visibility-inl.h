// Which keys of a tile the queries of a panel see: a bit for each key and lane, whatever the kinds of mask.

#if defined(QKV_KERNELS_VISIBILITY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_VISIBILITY_INL_H_
#undef QKV_KERNELS_VISIBILITY_INL_H_
#else
#define QKV_KERNELS_VISIBILITY_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "qkv/kernels/panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels {
namespace HWY_NAMESPACE {

/// Bits begin .. end-1 of a word, where begin and end may lie outside of it.
inline std::uint32_t bits_between(Index begin, Index end) {
  const auto below = [](Index n) {
    const Index count = std::clamp<Index>(n, 0, kWordBits);
    return static_cast<std::uint32_t>((std::uint64_t{1} << count) - 1);
  };
  return begin < end ? below(end) & ~below(begin) : 0;
}

/// The words of a tile as ranges alone would have it.
template <class T>
inline void start_words(const Panel<T>& panel, KeyRange tile, Visibility<T>& visibility) {
  const bool is_seen_by_all = panel.range.common.contains(tile);
  for (Index w = 0; w < kWordsPerTile; ++w) {
    const Index first = tile.begin + w * kWordBits;
    if (is_seen_by_all) {
      std::fill_n(visibility.words[w], panel.num_queries, bits_between(0, tile.end - first));
      continue;
    }
    for (Index i = 0; i < panel.num_queries; ++i)
      visibility.words[w][i] = bits_between(panel.key_begin[i] - first, std::min(panel.key_end[i], tile.end) - first);
  }
}

/// Bit j % 32 of words[j / 32 * word_stride] = flags[j * stride], for j < count; bits past the last are 0.
template <class Word>
inline void pack_flags(const bool* HWY_RESTRICT flags, Index stride, Index count, Word* HWY_RESTRICT words,
                       Index word_stride) {
  for (Index w = 0; w < ceil_div(count, kWordBits); ++w) words[w * word_stride] = 0;
  Index j = 0;
  const hn::CappedTag<std::uint8_t, kWordBits> d;
  constexpr Index kStep = hn::MaxLanes(hn::CappedTag<std::uint8_t, kWordBits>());
  if constexpr (kStep >= 8) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(flags);
    std::uint8_t packed[kStep / 8 + 8];  // StoreMaskBits may write up to 8 bytes
    for (; stride == 1 && j + kStep <= count; j += kStep) {
      hn::StoreMaskBits(d, hn::Ne(hn::LoadU(d, bytes + j), hn::Zero(d)), packed);
      std::uint32_t bits = 0;
      std::memcpy(&bits, packed, kStep / 8);
      words[j / kWordBits * word_stride] |= bits << (j % kWordBits);
    }
  }
  for (; j < count; ++j) words[j / kWordBits * word_stride] |= static_cast<Word>(flags[j * stride]) << (j % kWordBits);
}

/// Packs what `keep` says of the keys from where `tile` begins: of several tiles where the next ones follow on it in whole words.
template <class T>
inline HWY_NOINLINE void pack_keep(const Head<T>& head, KeyRange tile, Panel<T>& panel) {
  const auto& keep = *head.args.keep;
  const bool is_followed = tile.end - tile.begin == kKeyTile && !head.args.sequences;
  const Index num_keys =
      is_followed ? std::min(kKeepTiles * kKeyTile, panel.range.any.end - tile.begin) : tile.end - tile.begin;
  panel.kept = {tile.begin, tile.begin + num_keys};
  const bool are_rows_alike = keep.stride(2) == 0;
  for (Index i = 0; i < (are_rows_alike ? 1 : panel.num_queries); ++i)
    pack_flags(&keep(head.b, head.h, panel.first_query + i, tile.begin), keep.stride(3), num_keys, panel.keep_words + i,
               panel.width);
  if (!are_rows_alike) return;
  for (Index w = 0; w < ceil_div(num_keys, kWordBits); ++w)
    std::fill_n(panel.keep_words + w * panel.width, panel.num_queries, panel.keep_words[w * panel.width]);
}

template <class T>
inline HWY_NOINLINE void restrict_to_keep(const Head<T>& head, Panel<T>& panel, KeyRange tile,
                                          Visibility<T>& visibility) {
  // A tile that begins inside of a word is packed anew.
  if (!panel.kept.contains(tile) || (tile.begin - panel.kept.begin) % kWordBits != 0) pack_keep(head, tile, panel);
  const MaskWord<T>* words = panel.keep_words + (tile.begin - panel.kept.begin) / kWordBits * panel.width;
  for (Index w = 0; w < ceil_div(tile.end - tile.begin, kWordBits); ++w, words += panel.width)
    for (Index i = 0; i < panel.num_queries; ++i) visibility.words[w][i] &= words[i];
}

template <class T>
inline HWY_NOINLINE void restrict_to_documents(const Head<T>& head, const Panel<T>& panel, KeyRange tile,
                                               Visibility<T>& visibility) {
  const auto& [q_ids, k_ids] = *head.args.documents;
  std::uint32_t words[kWordsPerTile];
  for (Index i = 0; i < panel.num_queries; ++i) {
    const Index id = q_ids(head.b, panel.first_query + i);
    if (i == 0 || id != q_ids(head.b, panel.first_query + i - 1)) {
      std::fill_n(words, kWordsPerTile, 0u);
      for (Index j = 0; j < tile.end - tile.begin; ++j)
        words[j / kWordBits] |= static_cast<std::uint32_t>(k_ids(head.b, tile.begin + j) == id) << (j % kWordBits);
    }
    for (Index w = 0; w < kWordsPerTile; ++w) visibility.words[w][i] &= words[w];
  }
}

/// Narrows a tile to where some query sees some key, by whole words at its beginning and to the key at its end. A row's bits stay what they
/// were: the keys that are left out would have added exact zeros.
template <class T>
inline KeyRange narrow_tile(const Panel<T>& panel, KeyRange tile, Visibility<T>& visibility) {
  std::uint32_t seen_by_any[kWordsPerTile], seen_by_all[kWordsPerTile];
  Index first_word = 0, end = 0;
  for (Index w = 0; w < kWordsPerTile; ++w) {
    MaskWord<T> any = 0, all = ~MaskWord<T>{0};
    for (Index i = 0; i < panel.num_queries; ++i) {
      any |= visibility.words[w][i];
      all &= visibility.words[w][i];
    }
    seen_by_any[w] = static_cast<std::uint32_t>(any);
    seen_by_all[w] = static_cast<std::uint32_t>(all);
    if (any == 0) continue;
    if (end == 0) first_word = w;
    end = w * kWordBits + std::bit_width(seen_by_any[w]);
  }
  visibility.is_full = true;
  for (Index w = first_word; w * kWordBits < end; ++w) {
    visibility.is_full &= seen_by_all[w] == bits_between(0, end - w * kWordBits);
    auto* const words = visibility.words[w - first_word];
    if (first_word > 0) std::copy_n(visibility.words[w], panel.num_queries, words);
    std::fill(words + panel.num_queries, words + panel.width, words[panel.num_queries - 1]);
  }
  return {tile.begin + first_word * kWordBits, tile.begin + end};
}

/// Visibility of num_keys keys of which lane i sees those of range_of(i).
template <class T, class RangeOf>
HWY_INLINE void see_by_range(Index width, Index num_keys, const RangeOf& range_of, Visibility<T>& visibility) {
  visibility.by_range = true;
  Index steps_end = 0;
  for (Index v = 0; v < width / kLanes<T>; ++v) {
    KeyRange common{0, num_keys};
    for (Index i = v * kLanes<T>; i < (v + 1) * kLanes<T>; ++i) {
      const KeyRange seen = range_of(i);
      visibility.key_begin[i] = static_cast<T>(seen.begin);
      visibility.key_end[i] = static_cast<T>(seen.end);
      common = intersect(common, seen);
      steps_end = std::max(steps_end, seen.end);
    }
    visibility.common[v] = common;
    if constexpr (kLanesAreMany<T>) visibility.steps.end[v] = steps_end;
  }
}

/// Visibility of a tile in which each query sees the keys of its range.
template <class T>
inline void look_at_ranges(const Panel<T>& panel, KeyRange tile, Visibility<T>& visibility) {
  const Index num_keys = tile.end - tile.begin;
  see_by_range(
      panel.width, num_keys,
      [&](Index i) {
        const Index lane = std::min(i, panel.num_queries - 1);
        return KeyRange{std::clamp<Index>(panel.key_begin[lane] - tile.begin, 0, num_keys),
                        std::clamp<Index>(panel.key_end[lane] - tile.begin, 0, num_keys)};
      },
      visibility);
}

/// From the words of a tile to ranges, if what each lane sees is consecutive, as it is in a mask of documents or of a triangle.
template <class T>
inline void find_ranges(Index width, Index num_keys, Visibility<T>& visibility) {
  KeyRange seen[kMaxPanelWidth<T>];
  for (Index i = 0; i < width; ++i) {
    Index count = 0;
    for (Index w = 0; w * kWordBits < num_keys; ++w) {
      const auto word = static_cast<std::uint32_t>(visibility.words[w][i]);
      if (word == 0) continue;
      if (count == 0) seen[i].begin = w * kWordBits + std::countr_zero(word);
      seen[i].end = w * kWordBits + std::bit_width(word);
      count += std::popcount(word);
    }
    if (seen[i].end - seen[i].begin != count) return;
  }
  see_by_range(
      width, num_keys, [&](Index i) { return seen[i]; }, visibility);
}

/// look_at_tile() where `keep` or documents have a say.
template <class T>
inline HWY_NOINLINE KeyRange look_at_words(const Head<T>& head, Panel<T>& panel, KeyRange tile, bool mixed_documents,
                                           Visibility<T>& visibility) {
  start_words(panel, tile, visibility);
  if (head.args.keep) restrict_to_keep(head, panel, tile, visibility);
  if (mixed_documents) restrict_to_documents(head, panel, tile, visibility);
  tile = narrow_tile(panel, tile, visibility);
  const Index num_keys = tile.end - tile.begin;
  visibility.steps = Steps::all(num_keys);
  if (!visibility.is_full) find_ranges(panel.width, num_keys, visibility);
  return tile;
}

/// What of a tile the panel has to look at, and what it sees of that; empty if it sees nothing. `documents`: the ids among the tile's keys, or
/// of more keys.
template <class T>
inline HWY_NOINLINE KeyRange look_at_tile(const Head<T>& head, Panel<T>& panel, KeyRange tile, IdSpan documents,
                                          Visibility<T>& visibility) {
  const bool mixed_documents = head.args.documents && !(documents.is_one() && documents == panel.documents);
  if (mixed_documents && !documents.overlaps(panel.documents)) return {tile.begin, tile.begin};
  visibility.by_range = !head.args.keep && !mixed_documents;
  if (!visibility.by_range) return look_at_words(head, panel, tile, mixed_documents, visibility);
  visibility.is_full = panel.range.common.contains(tile);
  visibility.steps = Steps::all(tile.end - tile.begin);
  if (!visibility.is_full) look_at_ranges(panel, tile, visibility);
  return tile;
}

/// t where key j lies in the range of the lane of vector v, -inf elsewhere.
template <class T, class V>
HWY_INLINE V mask_by_range(const Visibility<T>& visibility, Index v, Index j, V t) {
  const Tag<T> d;
  const auto key = hn::Set(d, static_cast<T>(j));
  const auto seen = hn::And(hn::Le(hn::Load(d, visibility.key_begin + v * kLanes<T>), key),
                            hn::Lt(key, hn::Load(d, visibility.key_end + v * kLanes<T>)));
  return hn::IfThenElse(seen, t, hn::Set(d, kMinusInfinity<T>));
}

/// Replaces the scores of keys outside of a lane's range by -inf, as far as the steps go.
template <int kVectors, class T>
HWY_NOINLINE void mask_by_range(const Visibility<T>& visibility, T* HWY_RESTRICT scores) {
  const Tag<T> d;
  for (Index v = 0; v < kVectors; ++v) {
    const auto mask_keys = [&](KeyRange keys) {
      for (Index j = keys.begin; j < keys.end; ++j) {
        T* const place = scores + (j * kVectors + v) * kLanes<T>;
        hn::Store(mask_by_range(visibility, v, j, hn::Load(d, place)), d, place);
      }
    };
    const Index last = visibility.steps.end[v], first_common = std::min(visibility.common[v].begin, last);
    mask_keys({0, first_common});
    mask_keys({std::max(first_common, visibility.common[v].end), last});
  }
}

/// Replaces the scores of keys that a lane does not see by -inf.
template <int kVectors, class T>
HWY_NOINLINE void mask_scores(const Visibility<T>& visibility, Index num_keys, T* HWY_RESTRICT scores) {
  const Tag<T> d;
  const hn::RebindToUnsigned<Tag<T>> du;
  const hn::RebindToSigned<Tag<T>> di;
  const auto excluded = hn::Set(d, kMinusInfinity<T>);
  for (Index first = 0; first < num_keys; first += kWordBits) {
    const Index count = std::min(kWordBits, num_keys - first);
    for (Index i = 0; i < kVectors * kLanes<T>; i += kLanes<T>) {
      // From the last key down: its bit is moved to where the sign is.
      auto bits = hn::ShiftLeftSame(hn::Load(du, visibility.words[first / kWordBits] + i),
                                    static_cast<int>(Index{8 * sizeof(T)} - count));
      for (Index j = count - 1; j >= 0; --j) {
        T* const place = scores + (first + j) * kVectors * kLanes<T> + i;
        const auto seen = hn::RebindMask(d, hn::Lt(hn::BitCast(di, bits), hn::Zero(di)));
        hn::Store(hn::IfThenElse(seen, hn::Load(d, place), excluded), d, place);
        bits = hn::ShiftLeft<1>(bits);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#endif  // QKV_KERNELS_VISIBILITY_INL_H_
