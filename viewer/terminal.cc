#include "viewer/terminal.h"

#include <algorithm>
#include <numeric>

#include "viewer/color.h"
#include "viewer/display_text.h"
#include "viewer/link.h"
#include "viewer/terminal_parts.h"

namespace qkv::viewer {
namespace {

// Of longer texts only the strongest tokens are listed: nobody reads a hundred percentages.
constexpr Index kMostTokensInFull = 100, kNumListed = 12;
constexpr std::size_t kNumRanked = 5;

struct Column {
  std::string label, number;
  Index width = 0;
  float weight = 0;
};

Column make_column(const Picture& picture, Index key, float weight, const Style& style) {
  constexpr Index kSmallest = 3;
  const auto mark = symbols(style).ellipsis;
  std::string label = cut_to_width(printable(picture.keys[key].text), style.width - 6, mark);
  if (picture.from->contains(key)) label = "[" + label + "]";
  std::string number = percent_text(weight);
  const Index width = std::max({display_width(label), display_width(number), kSmallest});
  return {std::move(label), std::move(number), width, weight};
}

// The tokens in lines as wide as the terminal, the number of each below it.
std::string running_text(const Picture& picture, const std::vector<float>& row, const Style& style) {
  std::string lines;
  std::vector<Cell> labels;
  std::string numbers;
  Index used = 0;
  const auto flush = [&] {
    lines += paint_line(labels, style) + "\n" + numbers + "\n";
    labels.clear();
    numbers.clear();
    used = 0;
  };
  for (Index j = 0; j < static_cast<Index>(row.size()); ++j) {
    const Column column = make_column(picture, j, row[j], style);
    if (used > 0 && used + 2 + column.width > style.width) flush();
    labels.push_back({.text = "  "});
    labels.push_back({.text = pad_left(column.label, column.width), .shade = column.weight});
    numbers += "  " + pad_left(column.number, column.width);
    used += 2 + column.width;
  }
  flush();
  return lines;
}

std::string strongest_tokens(const Picture& picture, const std::vector<float>& row, const Style& style) {
  std::vector<Index> order(row.size());
  std::iota(order.begin(), order.end(), Index{0});
  std::ranges::stable_sort(order, [&](Index a, Index b) { return is_stronger(row[a], row[b]); });
  std::string lines = "the " + std::to_string(kNumListed) + " strongest of " + std::to_string(row.size()) + ":\n";
  for (Index place = 0; place < kNumListed; ++place) {
    const Index j = order[place];
    const std::string label = (picture.from->contains(j) ? "itself: " : "") + printable(picture.keys[j].text);
    lines += "  " + pad_left(percent_text(row[j]), 4) + "  " +
             cut_to_width(label, style.width - 20, symbols(style).ellipsis) + "  (#" +
             std::to_string(picture.keys[j].index) + ")\n";
  }
  return lines;
}

std::string hidden_lines(const Picture& picture, const Style& style) {
  if (picture.hidden_keys.empty()) return "";
  const auto row = row_of(picture.hidden_weights, *picture.from);
  std::string list;
  for (std::size_t j = 0; j < row.size(); ++j)
    list += (list.empty() ? "" : ", ") + printable(picture.hidden_keys[j].text) + " " + percent_text(row[j]);
  const bool is_rescaled = picture.special == SpecialTokens::kRenormalise;
  return wrapped("(hidden: " + list + (is_rescaled ? "; the others are rescaled to 100%)" : ")"), "  ", style);
}

std::string ranking_lines(const Picture& picture, const Style& style) {
  if (picture.ranking.empty()) return "";
  const auto [dot, times, arrow, ellipsis] = symbols(style);
  const std::size_t count = std::min(picture.ranking.size(), kNumRanked);
  std::string lines =
      wrapped("heads that link " + quoted(picture.queries, *picture.from, style) + " " + std::string(arrow) + " " +
                  quoted(picture.keys, *picture.to, style) + " (" + std::to_string(count) + " of " +
                  std::to_string(picture.ranking.size()) + ", layers and heads count from 0)",
              "", style);
  for (std::size_t place = 0; place < count; ++place) {
    const RankedHead& ranked = picture.ranking[place];
    const std::string name = "layer " + std::to_string(ranked.layer) + " head " + std::to_string(ranked.head);
    std::string line = "  " + pad_right(name, 16) + "  " + two_digits(ranked.weight);
    constexpr float kLeastShown = 0.005F;  // the rest would be 0.00
    for (const TokenWeight& word : ranked.next) {
      if (!(word.weight >= kLeastShown)) break;
      line += (&word == &ranked.next.front() ? "   then " : ", ") +
              quoted(picture.keys, {word.token, word.token + 1}, style) + " " + two_digits(word.weight);
    }
    lines += cut_to_width(line, style.width, ellipsis) + "\n";
  }
  return lines;
}

}  // namespace

std::string text_view(const Picture& picture, const Style& style) {
  const auto row = row_of(picture.weights, *picture.from);
  const bool in_full = static_cast<Index>(row.size()) <= kMostTokensInFull;
  std::string view = header_line(picture, style) + "\n" + answer_lines(picture, style) + "\n";
  view += in_full ? running_text(picture, row, style) : strongest_tokens(picture, row, style);
  view += hidden_lines(picture, style);
  const std::string ranking = ranking_lines(picture, style);
  return ranking.empty() ? view : view + "\n" + ranking;
}

}  // namespace qkv::viewer
