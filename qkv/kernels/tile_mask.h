#pragma once

#include <algorithm>

#include "qkv/kernels/attention_args.h"

// What the structural masks let through, as ranges of keys. causal, window and valid_lens all cut the keys of one query
// to a range begin .. end-1, so a panel of queries needs only one range per query, and whether a tile of keys can be
// skipped, is free of masking, or must be masked key by key follows from two ranges: the union and the intersection
// over the panel.

namespace qkv::kernels {

/// Keys begin .. end-1; empty if begin >= end.
struct KeyRange {
  Index begin = 0, end = 0;

  bool empty() const { return begin >= end; }
  bool contains(KeyRange other) const { return other.begin >= begin && other.end <= end; }
};

/// The keys that query i of batch entry b sees by causal, window and valid_lens.
template <class T>
KeyRange visible_range(const AttentionArgs<T>& args, Index b, Index i) {
  const Index position = args.q_start(b) + i;
  KeyRange range{0, args.kv_len()};
  if (args.valid_lens) range.end = std::min(range.end, (*args.valid_lens)(b, i));
  if (args.causal) range.end = std::min(range.end, position + 1);
  if (args.window_right) range.end = std::min(range.end, position + *args.window_right + 1);
  if (args.window_left) range.begin = std::max(range.begin, position - *args.window_left);
  return range.empty() ? KeyRange{0, 0} : range;
}

/// The ranges of a panel's queries taken together: tiles outside `any` are skipped, those inside `all` need no masking.
struct PanelRange {
  KeyRange any;  ///< smallest range that holds every query's
  KeyRange all;  ///< keys that every query sees

  /// Takes in one more query. A query that sees nothing leaves `any` alone and empties `all`.
  void add(KeyRange range) {
    if (!range.empty()) {
      any = any.empty() ? range : KeyRange{std::min(any.begin, range.begin), std::max(any.end, range.end)};
    }
    all = {std::max(all.begin, range.begin), std::min(all.end, range.end)};
  }
};

}  // namespace qkv::kernels
