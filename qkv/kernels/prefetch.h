#pragma once

#include "qkv/core/index.h"

namespace qkv::kernels {

/// Memory that will be needed soon, fetched into L2 a few cache lines at a time while a panel works on something else.
template <class T>
class Prefetch {
 public:
  /// Adds rows, at most three times: keys, values, and the bias or the next head's queries. Rows that begin within a line may have one line more than
  /// is fetched.
  void add(const T* first_row, Index stride, Index num_rows, Index row_elements) {
    if (num_rows <= 0 || row_elements <= 0) return;
    const Index num_lines = ceil_div(row_elements, kLineElements);
    parts_[num_parts_++] = {first_row, stride, num_rows, num_lines};
    num_lines_ += num_rows * num_lines;
  }

  /// Everything is to be fetched by the time that num_rows rows of a product are done.
  void spread_over(Index num_rows) { lines_per_row_ = ceil_div(num_lines_, num_rows); }

  /// What is due while num_rows more are done.
  void fetch_for(Index num_rows) {
    for (Index count = num_rows * lines_per_row_; count > 0 && part_ < num_parts_; --count)
      __builtin_prefetch(next_line(), 0, 2);
  }

  /// Where the next line begins; null after the last.
  const T* next_line() {
    if (part_ == num_parts_) return nullptr;
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
  Rows parts_[3] = {};
  int num_parts_ = 0, part_ = 0;
  Index num_lines_ = 0, lines_per_row_ = 0, line_ = 0;
};

}  // namespace qkv::kernels
