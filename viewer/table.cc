#include "viewer/table.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "viewer/display_text.h"
#include "viewer/terminal_parts.h"

namespace qkv::viewer {
namespace {

constexpr Index kGap = 2;

// Neighbouring columns under one text, from column `begin` on.
struct Group {
  std::string text;
  std::size_t begin = 0;
  Index width = 0;
};

// Columns that are drawn side by side.
struct Layout {
  std::vector<Index> widths;
  std::vector<Group> groups;

  Index width() const {
    Index sum = 0;
    for (Index width : widths) sum += width;
    return sum + kGap * (static_cast<Index>(widths.size()) - 1);
  }
};

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    parts.emplace_back(text.substr(0, text.find(at)));
    text.remove_prefix(std::min(text.size(), parts.back().size() + 1));
  }
  return parts;
}

Index widest_word(std::string_view text) {
  Index widest = 0;
  for (const std::string& word : split(text, ' ')) widest = std::max(widest, display_width(word));
  return widest;
}

// A column is as wide as its widest cell or its title, a group at least as its widest word.
Layout lay_out(std::span<const Column* const> columns) {
  Layout layout;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    Index width = display_width(columns[c]->title);
    for (const Cell& cell : columns[c]->cells) width = std::max(width, display_width(cell.text));
    layout.widths.push_back(width);
    if (layout.groups.empty() || columns[c]->group.empty() || layout.groups.back().text != columns[c]->group)
      layout.groups.push_back({columns[c]->group, c, -kGap});
    layout.groups.back().width += kGap + width;
  }
  for (Group& group : layout.groups) {
    const Index missing = std::max<Index>(widest_word(group.text) - group.width, 0);
    layout.widths[group.begin] += missing;
    group.width += missing;
  }
  return layout;
}

std::string blanks(Index count) {
  return std::string(static_cast<std::size_t>(count), ' ');
}

std::string in_the_middle(const std::string& text, Index width) {
  return pad_right(blanks((width - display_width(text) + 1) / 2) + text, width);
}

std::string without_end_blanks(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

// The groups' texts, each in lines of its group's width, the last ones on the same line.
std::string group_lines(const Layout& layout) {
  std::vector<std::vector<std::string>> texts;
  std::size_t height = 0;
  for (const Group& group : layout.groups) {
    texts.push_back(split(wrapped(group.text, "", {.width = group.width}), '\n'));
    if (group.text.empty()) texts.back().clear();
    height = std::max(height, texts.back().size());
  }
  std::string lines;
  for (std::size_t row = 0; row < height; ++row) {
    std::string line;
    for (std::size_t g = 0; g < texts.size(); ++g) {
      const std::size_t above = height - texts[g].size();
      line +=
          blanks(g == 0 ? 0 : kGap) + in_the_middle(row < above ? "" : texts[g][row - above], layout.groups[g].width);
    }
    lines += without_end_blanks(line);
  }
  return lines;
}

std::string to_lines(std::span<const Column* const> columns, const Style& style) {
  const Layout layout = lay_out(columns);
  std::string titles, rows;
  for (std::size_t c = 0; c < columns.size(); ++c)
    titles += blanks(c == 0 ? 0 : kGap) + pad_left(columns[c]->title, layout.widths[c]);
  for (std::size_t r = 0; r < columns.front()->cells.size(); ++r) {
    std::vector<Cell> line;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      Cell cell = columns[c]->cells[r];
      cell.text = pad_left(cell.text, layout.widths[c]);
      line.push_back({.text = blanks(c == 0 ? 0 : kGap)});
      line.push_back(std::move(cell));
    }
    rows += paint_line(line, style) + "\n";
  }
  return group_lines(layout) + titles + "\n" + rows;
}

}  // namespace

std::string table(const Column& first, const std::vector<Column>& columns, const Style& style) {
  std::string lines;
  for (std::size_t begin = 0; begin < columns.size();) {
    std::vector<const Column*> shown = {&first, &columns[begin++]};
    for (; begin < columns.size(); ++begin) {
      shown.push_back(&columns[begin]);
      if (lay_out(shown).width() <= style.width) continue;
      shown.pop_back();
      break;
    }
    lines += (lines.empty() ? "" : "\n") + to_lines(shown, style);
  }
  return lines;
}

}  // namespace qkv::viewer
