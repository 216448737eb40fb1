#pragma once

#include <algorithm>
#include <cassert>

#include "qkv/core/index.h"

namespace qkv::kernels {

/// Memory that will be needed soon, fetched into L2 a few cache lines at a time while a panel works on something else. In turns, not in bursts: a
/// processor has about 16 lines on the way at once, and whatever comes after one more waits.
template <class T>
class Prefetch {
 public:
  /// Adds rows, at most kMostParts times. Rows that begin within a line may have one line more than is fetched.
  void add(const T* first_row, Index stride, Index num_rows, Index row_elements) {
    if (num_rows <= 0 || row_elements <= 0) return;
    assert(num_parts_ < kMostParts);
    const Index num_lines = ceil_div(row_elements, kLineElements);
    parts_[num_parts_++] = {first_row, stride, num_rows, num_lines};
    num_lines_ += num_rows * num_lines;
  }

  /// Everything is to be fetched in so many turns.
  void spread_over(Index num_turns) {
    if (num_lines_ > 0) lines_per_turn_ = ceil_div(num_lines_, std::max<Index>(num_turns, 1));
  }

  /// Whether nothing is left to fetch.
  bool is_done() const { return part_ == num_parts_; }

  /// Fetches what is due in one turn. Always inline: a call would move a tile's sums out of the registers. Lines to be written are fetched as those to be
  /// read are, since no other core has them.
  [[gnu::always_inline]] void take_turn() {
    for (Index count = lines_per_turn_; count > 0 && !is_done(); --count) __builtin_prefetch(next_line(), 0, 2);
  }

  /// Where the next line begins; null after the last.
  [[gnu::always_inline]] const T* next_line() {
    if (is_done()) return nullptr;
    Rows& rows = parts_[part_];
    const T* const line = rows.row + line_ * kLineElements;
    if (++line_ < rows.num_lines) return line;
    line_ = 0;
    if (--rows.count == 0)
      ++part_;
    else
      rows.row += rows.stride;
    return line;
  }

 private:
  static constexpr Index kLineElements = 64 / Index{sizeof(T)};
  struct Rows {
    const T* row;
    Index stride, count, num_lines;  ///< count rows, num_lines of each
  };
  /// Keys and values of the next tile; keys, values and queries of the next head; places of outputs.
  static constexpr int kMostParts = 6;
  Rows parts_[kMostParts] = {};
  int num_parts_ = 0, part_ = 0;
  Index num_lines_ = 0, lines_per_turn_ = 0, line_ = 0;
};

}  // namespace qkv::kernels
