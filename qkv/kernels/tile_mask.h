#pragma once

#include <algorithm>

#include "qkv/kernels/attention_args.h"

// What the structural masks let through, as ranges of keys. Sequences, causal, window and valid_lens all cut the keys of one query
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

/// The keys of both.
inline KeyRange intersect(KeyRange a, KeyRange b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

/// The last n with bounds(n) <= i, not counting the end of the last sequence: whose i is. bounds(0) <= i.
inline Index last_at_most(const TensorView<const Index, 1>& bounds, Index i) {
  Index low = 0, high = bounds.shape(0) - 1;
  while (high - low > 1) {
    const Index middle = low + (high - low) / 2;
    (bounds(middle) <= i ? low : high) = middle;
  }
  return low;
}

/// Where a query stands among the keys, and the keys it can see.
struct QueryPlace {
  Index position;  ///< counted from key 0, in a ragged batch from key 0 of the whole
  KeyRange keys;   ///< what its sequence, causal, window and valid_lens let through
};

/// The place of query i of batch entry b.
template <class T>
QueryPlace place_query(const AttentionArgs<T>& args, Index b, Index i) {
  KeyRange keys{0, args.kv_len()};
  Index sequence = b, first_query = 0, num_queries = args.q_len();
  if (args.sequences) {
    sequence = last_at_most(args.sequences->q, i);
    keys = {args.sequences->k(sequence), args.sequences->k(sequence + 1)};
    first_query = args.sequences->q(sequence);
    num_queries = args.sequences->q(sequence + 1) - first_query;
  }
  const Index q_start = args.q_start ? (*args.q_start)(sequence) : keys.end - keys.begin - num_queries;
  const Index position = keys.begin + q_start + i - first_query;
  if (args.valid_lens) keys.end = std::min(keys.end, (*args.valid_lens)(b, i));
  if (args.causal) keys.end = std::min(keys.end, position + 1);
  if (args.window_right) keys.end = std::min(keys.end, position + *args.window_right + 1);
  if (args.window_left) keys.begin = std::max(keys.begin, position - *args.window_left);
  return {position, keys.empty() ? KeyRange{0, 0} : keys};
}

/// The ranges of a panel's queries taken together: tiles outside `any` are skipped, those inside `common` need no masking.
struct PanelRange {
  KeyRange any;     ///< smallest range that holds every query's
  KeyRange common;  ///< keys that every query sees

  /// Takes in one more query. A query that sees nothing leaves `any` alone and empties `common`.
  void add(KeyRange range) {
    if (!range.empty()) {
      any = any.empty() ? range : KeyRange{std::min(any.begin, range.begin), std::max(any.end, range.end)};
    }
    common = {std::max(common.begin, range.begin), std::min(common.end, range.end)};
  }
};

}  // namespace qkv::kernels
