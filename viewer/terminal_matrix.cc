#include <algorithm>
#include <cmath>

#include "viewer/color.h"
#include "viewer/display_text.h"
#include "viewer/terminal.h"
#include "viewer/terminal_parts.h"

namespace qkv::viewer {
namespace {

constexpr Index kMostWideCells = 24, kLeastLabel = 4, kMostLabel = 16, kTickEvery = 10, kMostLetters = 6;
// Before the label of a row with wide cells stand a number of two digits and a blank, after it a blank.
constexpr Index kAroundLabel = 4;

// What is drawn: the picture's weights, or the largest of each pool x pool of them.
struct Grid {
  Tensor<float, 2> weights;
  Index pool = 1;        // tokens that a cell stands for, each way
  Index cell_width = 1;  // columns
  Index label_width = 0;
  bool half_blocks = false;  // two rows in a line

  Index rows() const { return weights.shape(0); }
  Index columns() const { return weights.shape(1); }
};

Tensor<float, 2> pooled(CView<2> weights, Index pool) {
  Tensor<float, 2> result({ceil_div(weights.shape(0), pool), ceil_div(weights.shape(1), pool)}, 0.0F);
  for (Index i = 0; i < weights.shape(0); ++i)
    for (Index j = 0; j < weights.shape(1); ++j) {
      float& cell = result(i / pool, j / pool);
      if (!(weights(i, j) <= cell)) cell = weights(i, j);  // NaN wins
    }
  return result;
}

Grid make_grid(const Picture& picture, const Style& style) {
  const Index num_queries = picture.weights.shape(0), num_keys = picture.weights.shape(1);
  Grid grid;
  Index longest = kLeastLabel;
  for (const RecordToken& token : picture.queries) longest = std::max(longest, display_width(printable(token.text)));
  const bool fits =
      std::max(num_queries, num_keys) <= kMostWideCells && kLeastLabel + kAroundLabel + 2 * num_keys <= style.width;
  if (fits) {
    grid.cell_width = 2;
    grid.label_width = std::min({longest, kMostLabel, style.width - 2 * num_keys - kAroundLabel});
  } else {
    grid.label_width = kLeastLabel;
    grid.pool = ceil_div(num_keys, style.width - kLeastLabel - 1);
    const bool many_colors = style.color == ColorDepth::k256 || style.color == ColorDepth::kTrue;
    grid.half_blocks = many_colors && style.unicode;
  }
  grid.weights = pooled(picture.weights, grid.pool);
  return grid;
}

// Tenths, rounded, so that colours are not needed; in ASCII a ramp that gets darker.
std::string digit(double weight, const Style& style) {
  constexpr std::string_view kRamp = " .:-=+*#%@";
  const auto tenths = std::isnan(weight) ? 0 : std::clamp(std::lround(10 * weight), 0L, 9L);
  if (std::isnan(weight)) return "?";
  if (!style.unicode) return {kRamp[static_cast<std::size_t>(tenths)]};
  return tenths == 0 ? std::string(symbols(style).dot) : std::to_string(tenths);
}

Cell make_cell(const Grid& grid, Index i, Index j, const Style& style) {
  const double weight = grid.weights(i, j);
  if (grid.half_blocks) {
    // The rows above and below in one character: its upper half is the ink.
    const bool has_lower = i + 1 < grid.rows();
    return {.text = "\u2580", .shade = has_lower ? grid.weights(i + 1, j) : 0.0F, .ink = weight};
  }
  const bool shows_number = style.color == ColorDepth::kNone || style.color == ColorDepth::k16;
  const std::string mark = shows_number || std::isnan(weight) ? digit(weight, style) : " ";
  return {.text = pad_left(mark, grid.cell_width), .shade = weight};
}

std::string row_label(const Picture& picture, const Grid& grid, Index i, const Style& style) {
  const Index token = i * grid.pool;
  if (grid.cell_width == 2) {
    const std::string label = printable(picture.queries[token].text);
    return pad_left(std::to_string(token), 2) + " " +
           pad_right(cut_to_width(label, grid.label_width, symbols(style).ellipsis), grid.label_width) + " ";
  }
  constexpr Index kRowsPerTick = 4;
  return pad_left(i % kRowsPerTick == 0 ? std::to_string(token) : "", grid.label_width) + " ";
}

// Above wide cells: the number of each column, tens over ones. Above narrow ones: a number at every tenth.
std::string column_labels(const Grid& grid, const std::string& margin) {
  std::string tens = margin, ones = margin;
  for (Index j = 0; j < grid.columns(); ++j) {
    const std::string number = std::to_string(j * grid.pool);
    if (grid.cell_width == 2) {
      tens += pad_left(j < kTickEvery ? "" : number.substr(0, 1), 2);
      ones += pad_left(number.substr(number.size() - 1), 2);
    } else if (j % kTickEvery == 0) {
      ones = pad_right(ones, static_cast<Index>(margin.size()) + j);
      ones += number;
    }
  }
  const bool has_tens = grid.cell_width == 2 && grid.columns() > kTickEvery;
  return (has_tens ? tens + "\n" : "") + ones + "\n";
}

// The tokens themselves, written downwards; empty where one has too many letters or is wider than a cell.
std::string vertical_labels(const Picture& picture, const Grid& grid, const std::string& margin) {
  if (grid.cell_width != 2) return "";
  std::vector<std::vector<Cluster>> columns;
  Index height = 0;
  for (const RecordToken& token : picture.keys) {
    columns.push_back(clusters(printable(token.text)));
    height = std::max(height, static_cast<Index>(columns.back().size()));
  }
  if (height > kMostLetters) return "";
  std::string lines;
  for (Index line = 0; line < height; ++line) {
    lines += margin;
    for (const auto& letters : columns) {
      const Index at = line - (height - static_cast<Index>(letters.size()));
      lines += pad_left(at < 0 ? "" : letters[at].text, 2);
    }
    lines += "\n";
  }
  return lines;
}

// Which token each number stands for; of pooled ones only those with a tick.
std::string key_lines(const Picture& picture, const Grid& grid, const Style& style) {
  const Index step = grid.pool == 1 ? 1 : kTickEvery * grid.pool;
  std::vector<std::string> entries = {"columns:"};
  for (Index j = 0; j < static_cast<Index>(picture.keys.size()); j += step)
    entries.push_back(std::to_string(j) + " " + printable(picture.keys[j].text));
  return wrapped(entries, "", style);
}

std::string legend(const Grid& grid, const Style& style) {
  std::string text;
  if (grid.pool > 1) {
    const std::string pool = std::to_string(grid.pool);
    text = "1 cell = " + pool + std::string(symbols(style).times) + pool + " tokens, peak; ";
  }
  if (style.color == ColorDepth::kNone || style.color == ColorDepth::k16) {
    const std::string below = style.unicode ? std::string(symbols(style).dot) : "blank";
    text += style.unicode ? "digits are tenths, rounded: " + below + " below 0.05, 9 from 0.85"
                          : "tenths: blank below 0.05, then .:-=+*#%@, the last from 0.85";
    return wrapped("weights: " + text, "", style);
  }
  constexpr Index kMostSteps = 16, kOtherColumns = 14;
  const Index steps = std::min(kMostSteps, style.width - kOtherColumns);
  std::vector<Cell> cells = {{.text = "weights: 0 "}};
  for (Index step = 0; step <= steps; ++step) {
    const double scale = static_cast<double>(step) / static_cast<double>(steps);
    cells.push_back({.text = " ", .shade = scale * scale});
  }
  cells.push_back({.text = " 1"});
  return paint_line(cells, style) + "\n" + wrapped(text + "square-root scale, 0.25 in the middle", "", style);
}

}  // namespace

std::string matrix_view(const Picture& picture, const Style& style) {
  const Grid grid = make_grid(picture, style);
  std::string view = header_line(picture, style) + "\n" + answer_lines(picture, style) + "\n";
  view += wrapped("layer " + std::to_string(picture.layer) + " head " + std::to_string(picture.head) +
                      ": each row (from, query) looks at the columns (to, key)",
                  "", style);
  const std::string margin(static_cast<std::size_t>(grid.label_width + (grid.cell_width == 2 ? kAroundLabel : 1)), ' ');
  const std::string vertical = vertical_labels(picture, grid, margin);
  view += vertical.empty() ? column_labels(grid, margin) : vertical;
  for (Index i = 0; i < grid.rows(); i += grid.half_blocks ? 2 : 1) {
    std::vector<Cell> cells = {{.text = row_label(picture, grid, i, style)}};
    for (Index j = 0; j < grid.columns(); ++j) cells.push_back(make_cell(grid, i, j, style));
    view += paint_line(cells, style) + "\n";
  }
  view += legend(grid, style);
  return vertical.empty() ? view + key_lines(picture, grid, style) : view;
}

}  // namespace qkv::viewer
