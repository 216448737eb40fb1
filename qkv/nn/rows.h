#pragma once

#include <algorithm>

#include "qkv/nn/run.h"

namespace qkv {

/// Calls row(b, i) once for each position of [batch, len], many positions a task.
/// Threads: rows run in any order on run.executor, so each must write its own memory only.
template <class Row>
void for_each_row(Index batch, Index len, const Run& run, const Row& row) {
  constexpr Index kRowsPerTask = 32;  // some microseconds of work: enough to be worth handing to a thread
  const Index num_rows = batch * len;
  executor_of(run).run(ceil_div(num_rows, kRowsPerTask), [&](Index task, Index) {
    const Index end = (std::min)(num_rows, (task + 1) * kRowsPerTask);  // windows.h has a macro min
    for (Index r = task * kRowsPerTask; r < end; ++r) row(r / len, r % len);
  });
}

}  // namespace qkv
