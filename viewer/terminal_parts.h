#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "viewer/picture.h"
#include "viewer/style.h"

namespace qkv::viewer {

// What the views of a terminal have in common.

/// The drawing characters that a style allows.
struct Symbols {
  std::string_view dot, times, arrow, ellipsis;
};
Symbols symbols(const Style& style);

/// "all-MiniLM-L6-v2 . 6 layers x 12 heads . 16 tokens" and a line end.
std::string header_line(const Picture& picture, const Style& style);

/// What `from` looks at most and how much it looks at `to`, in a sentence; below it, why this row was picked.
std::string answer_lines(const Picture& picture, const Style& style);

/// A run of tokens in quotes, cut to a length that fits in a sentence; with its #index where the text has others like
/// it.
std::string quoted(const std::vector<RecordToken>& tokens, TokenRun run, const Style& style);

/// "0.68".
std::string two_digits(double weight);

/// Words in lines, with a blank between them, so that no line is longer than style.width (a longer word is cut), each
/// line begun with `indent`; line end included.
std::string wrapped(const std::vector<std::string>& words, std::string_view indent, const Style& style);
/// The words of a text, broken at blanks.
std::string wrapped(std::string_view text, std::string_view indent, const Style& style);

}  // namespace qkv::viewer
