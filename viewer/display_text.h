#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/index.h"

namespace qkv::viewer {

/// A text that can do nothing to a terminal: control and format characters, line ends, and bytes that are not UTF-8
/// appear as escapes (\n, \x1b, \u202e). Joiners stay, emoji are made with them.
std::string printable(std::string_view text);

/// What a reader takes for one character: a grapheme cluster, and how many columns it fills in a terminal.
struct Cluster {
  std::string text;
  Index width = 0;
};

/// Cuts a text, which should be printable(), into clusters. Widths: 2 for East Asian wide and full-width characters,
/// emoji, and whatever is followed by U+FE0F; 0 for a combining mark on its own; 1 for the rest, "ambiguous" included.
/// A cluster is as wide as its widest character: an emoji made with joiners counts 2, which not every terminal follows.
std::vector<Cluster> clusters(std::string_view text);

/// Columns that a printable() text fills.
Index display_width(std::string_view text);

/// The text, if need be cut between clusters and ended with `mark`, so that it fills at most `width` columns.
std::string cut_to_width(std::string_view text, Index width, std::string_view mark);

/// The text with blanks before (after) it, so that it fills at least `width` columns.
std::string pad_left(std::string_view text, Index width);
std::string pad_right(std::string_view text, Index width);

/// A weight as a share of the whole: "15%", "<1%".
std::string percent_text(double weight);

/// Whether any character is a letter, a digit or a symbol that stands for something (an emoji): false for punctuation.
bool has_content(std::string_view text);

}  // namespace qkv::viewer
