#pragma once

#include <string>
#include <vector>

#include "viewer/color.h"
#include "viewer/style.h"

namespace qkv::viewer {

/// A column of a table of numbers. Neighbours with the same `group` share that text, in the middle above their titles,
/// in several lines where they are narrow.
struct Column {
  std::string group, title;
  std::vector<Cell> cells;  ///< one a row, shaded where they have a weight
};

/// The columns side by side, everything set to the right. Where they do not fit in style.width, further columns come
/// below, each time after the first one again; a single one that does not fit is drawn all the same. The columns have the same number of cells.
std::string table(const Column& first, const std::vector<Column>& columns, const Style& style);

}  // namespace qkv::viewer
