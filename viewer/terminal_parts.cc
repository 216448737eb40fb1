#include "viewer/terminal_parts.h"

#include <algorithm>
#include <cstdio>

#include "viewer/display_text.h"
#include "viewer/link.h"

namespace qkv::viewer {
namespace {

// What one row looks at most, hidden tokens counted.
struct Strongest {
  std::string name;
  float weight = 0;
  bool is_word = false;  // none of: hidden, special, punctuation, the row itself
  bool is_to = false;
};

Strongest strongest_of(const Picture& picture, const Style& style) {
  const auto row = row_of(picture.weights, *picture.from);
  const auto hidden = row_of(picture.hidden_weights, *picture.from);
  Strongest best{.name = "nothing", .weight = -1};
  for (Index j = 0; j < static_cast<Index>(row.size()); ++j) {
    if (!is_stronger(row[j], best.weight)) continue;
    const bool is_self = picture.from->contains(j);
    best = {.name = is_self ? "itself" : quoted(picture.keys, {j, j + 1}, style),
            .weight = row[j],
            .is_word = !is_self && is_content(picture.keys[j]),
            .is_to = picture.to && picture.to->contains(j)};
  }
  // Under kRenormalise the shown weights are on another scale than the hidden ones.
  for (Index j = 0; picture.special == SpecialTokens::kHide && j < static_cast<Index>(hidden.size()); ++j)
    if (is_stronger(hidden[j], best.weight))
      best = {.name = quoted(picture.hidden_keys, {j, j + 1}, style), .weight = hidden[j]};
  return best;
}

// The word that `from` looks at most, itself and hidden tokens left out; nothing where there is no other word.
std::string strongest_word(const Picture& picture, const Style& style) {
  const auto row = row_of(picture.weights, *picture.from);
  Index best = -1;
  for (Index j = 0; j < static_cast<Index>(row.size()); ++j)
    if (!picture.from->contains(j) && is_content(picture.keys[j]) && (best < 0 || is_stronger(row[j], row[best])))
      best = j;
  if (best < 0) return "";
  return quoted(picture.keys, {best, best + 1}, style) + " " + two_digits(row[best]);
}

std::string answer(const Picture& picture, const Style& style) {
  const std::string where = "layer " + std::to_string(picture.layer) + " head " + std::to_string(picture.head);
  const std::string from = quoted(picture.queries, *picture.from, style);
  const Strongest strongest = strongest_of(picture, style);
  if (!picture.to) {
    std::string text = from + " looks most at " + strongest.name + ": " + two_digits(strongest.weight) + " in " + where;
    const std::string word = strongest.is_word ? "" : strongest_word(picture, style);
    return word.empty() ? text : text + "; of the other words, at " + word;
  }
  double weight = 0;
  const auto row = row_of(picture.weights, *picture.from);
  for (Index j = picture.to->begin; j < picture.to->end; ++j) weight += row[j];
  const std::string to = quoted(picture.keys, *picture.to, style);
  if (strongest.is_to || !(weight < strongest.weight))
    return from + " looks most at " + to + ": " + two_digits(weight) + " in " + where;
  return from + " looks at " + to + " with " + two_digits(weight) + " in " + where + ", but most at " + strongest.name +
         ": " + two_digits(strongest.weight);
}

std::string counted(Index count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

Symbols symbols(const Style& style) {
  if (!style.unicode) return {.dot = "-", .times = "x", .arrow = "->", .ellipsis = ".."};
  return {.dot = "\u00b7", .times = "\u00d7", .arrow = "\u2192", .ellipsis = "\u2026"};
}

std::string header_line(const Picture& picture, const Style& style) {
  const Symbols marks = symbols(style);
  const std::string gap = " " + std::string(marks.dot) + " ";
  std::string line = printable(picture.model) + gap + counted(picture.num_layers, "layer") + " " +
                     std::string(marks.times) + " " + counted(picture.num_heads, "head") + gap +
                     counted(picture.num_tokens, "token");
  if (picture.words) line += gap + "pieces merged into words";
  return wrapped(line, "", style);
}

std::string answer_lines(const Picture& picture, const Style& style) {
  std::string lines;
  if (picture.from) lines = wrapped(answer(picture, style), "", style);
  if (!picture.reason.empty()) lines += wrapped("(picked: " + printable(picture.reason) + ")", "", style);
  return lines;
}

std::string quoted(const std::vector<RecordToken>& tokens, TokenRun run, const Style& style) {
  constexpr Index kLongest = 40;
  const std::string text = text_of(tokens, run);
  Index count = 0;
  for (Index begin = 0; begin + run.size() <= static_cast<Index>(tokens.size()); ++begin)
    count += text_of(tokens, {begin, begin + run.size()}) == text ? 1 : 0;
  const std::string quotes = "\"" + cut_to_width(printable(text), kLongest, symbols(style).ellipsis) + "\"";
  return count > 1 ? quotes + " #" + std::to_string(tokens[run.begin].index) : quotes;
}

std::string two_digits(double weight) {
  char buffer[32];
  const int length = std::snprintf(buffer, sizeof(buffer), "%.2f", weight);
  return {buffer, static_cast<std::size_t>(length)};
}

std::string wrapped(const std::vector<std::string>& words, std::string_view indent, const Style& style) {
  std::string lines, line(indent);
  const Index margin = display_width(indent);
  Index used = margin;
  bool is_empty = true;
  for (const std::string& whole_word : words) {
    const std::string word = cut_to_width(whole_word, style.width - margin, symbols(style).ellipsis);
    const Index width = display_width(word);
    if (!is_empty && used + 1 + width > style.width) {
      lines += line + "\n";
      line = indent;
      used = margin;
      is_empty = true;
    }
    if (!is_empty) line += ' ';
    line += word;
    used += width + (is_empty ? 0 : 1);
    is_empty = false;
  }
  return lines + line + "\n";
}

std::string wrapped(std::string_view text, std::string_view indent, const Style& style) {
  std::vector<std::string> words;
  while (!text.empty()) {
    words.emplace_back(text.substr(0, text.find(' ')));
    text.remove_prefix(std::min(text.size(), words.back().size() + 1));
  }
  return wrapped(words, indent, style);
}

}  // namespace qkv::viewer
