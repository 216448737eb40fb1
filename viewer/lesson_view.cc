#include "viewer/lesson_view.h"

#include <cmath>

#include "viewer/display_text.h"
#include "viewer/table.h"
#include "viewer/terminal_parts.h"

namespace qkv::viewer {
namespace {

constexpr const char* kIndent = "   ";

std::string heading(const std::string& title, const Style& style) {
  return "\n" + wrapped(title, "", style);
}

std::string explanation(const std::string& text, const Style& style) {
  return wrapped(text, kIndent, style) + "\n";
}

std::string claim_lines(const std::vector<Claim>& claims, const Style& style) {
  std::string lines = heading("What follows", style);
  for (const Claim& claim : claims) {
    lines += wrapped(claim.claim + ":", "", style);
    lines += wrapped((claim.holds ? "holds: " : "does not hold here: ") + claim.evidence + ".", kIndent, style);
  }
  return lines;
}

// A column with a row for each of `rows`.
template <class Rows, class Text>
Column column(const std::string& group, const std::string& title, const Rows& rows, const Text& text) {
  Column result{.group = group, .title = title, .cells = {}};
  for (const auto& row : rows) result.cells.push_back({.text = text(row)});
  return result;
}

template <class Rows, class Weight>
Column shaded_column(const std::string& group, const std::string& title, const Rows& rows, const Weight& weight) {
  Column result{.group = group, .title = title, .cells = {}};
  for (const auto& row : rows) result.cells.push_back({.text = percent_text(weight(row)), .shade = weight(row)});
  return result;
}

std::string variance_table(const ScaleLesson& lesson, const Style& style) {
  const auto& rows = lesson.variances;
  using Row = ScoreVariance;
  return table(column("", "d_k", rows, [](const Row& row) { return std::to_string(row.head_dim); }),
               {column("variance of q.k", "measured", rows, [](const Row& row) { return number_text(row.undivided); }),
                column("variance of q.k", "theory", rows, [](const Row& row) { return std::to_string(row.head_dim); }),
                column("q.k, divided", "measured", rows, [](const Row& row) { return number_text(row.divided); }),
                column("q.k, divided", "theory", rows, [](const Row&) { return "1"; }),
                column("", "chance", rows, [](const Row& row) { return number_text(100 * row.relative_error) + "%"; })},
               style);
}

std::string saturation_table(const ScaleLesson& lesson, const Style& style) {
  std::vector<Column> columns;
  const auto add = [&](const std::string& group, SoftmaxStats Saturation::*kind) {
    const auto value = [&](double SoftmaxStats::*member) {
      return [=](const Saturation& row) { return number_text(row.*kind.*member); };
    };
    columns.push_back(column(group, "largest", lesson.saturations, value(&SoftmaxStats::largest_weight)));
    for (std::size_t r = 0; r < lesson.saturations.size(); ++r)
      columns.back().cells[r].shade = (lesson.saturations[r].*kind).largest_weight;
    columns.push_back(column(group, "entropy", lesson.saturations, value(&SoftmaxStats::entropy)));
    columns.push_back(column(group, "gradient", lesson.saturations, value(&SoftmaxStats::gradient)));
    columns.push_back(column(group, "median", lesson.saturations, value(&SoftmaxStats::median_gradient)));
  };
  add("divided by sqrt(d_k)", &Saturation::divided);
  add("not divided", &Saturation::undivided);
  return table(
      column("", "d_k", lesson.saturations, [](const Saturation& row) { return std::to_string(row.head_dim); }),
      columns, style);
}

std::vector<Index> layer_numbers(const HeadsLesson& lesson) {
  std::vector<Index> numbers;
  for (Index layer = 0; layer < static_cast<Index>(lesson.layers.size()); ++layer) numbers.push_back(layer);
  return numbers;
}

Column layer_column(const HeadsLesson& lesson) {
  return column("", "layer", layer_numbers(lesson), [](Index layer) { return std::to_string(layer); });
}

std::string diagonal_table(const HeadsLesson& lesson, const Style& style) {
  std::vector<Column> columns;
  for (Index h = 0; h < lesson.num_heads(); ++h)
    columns.push_back(shaded_column("head", std::to_string(h), lesson.layers,
                                    [h](const LayerLook& layer) { return layer.heads[h].shares.self; }));
  columns.push_back(
      shaded_column("", "mean", lesson.layers, [](const LayerLook& layer) { return layer.together.shares.self; }));
  return table(layer_column(lesson), columns, style);
}

std::string one_against_several_table(const HeadsLesson& lesson, const std::string& heads, const Style& style) {
  const auto& rows = lesson.layers;
  const std::string self = "weight on itself", keys = "tokens reached", strongest = "strongest";
  return table(
      layer_column(lesson),
      {shaded_column(self, "plain", rows, [](const LayerLook& layer) { return layer.plain.shares.self; }),
       shaded_column(self, "one head", rows, [](const LayerLook& layer) { return layer.one_head.shares.self; }),
       shaded_column(self, heads, rows, [](const LayerLook& layer) { return layer.together.shares.self; }),
       column(keys, "plain", rows, [](const LayerLook& layer) { return tenths_text(layer.plain.num_keys); }),
       column(keys, "one head", rows, [](const LayerLook& layer) { return tenths_text(layer.one_head.num_keys); }),
       column(keys, heads, rows, [](const LayerLook& layer) { return tenths_text(layer.together.num_keys); }),
       column(strongest, heads, rows, [](const LayerLook& layer) { return tenths_text(layer.num_strongest); })},
      style);
}

std::string places_table(const HeadsLesson& lesson, const Style& style) {
  const auto counts = [&](const std::string& title, std::optional<Place> place) {
    Column result = column("heads that look mostly at", title, lesson.layers,
                           [&](const LayerLook& layer) { return std::to_string(num_heads_at(layer, place)); });
    result.cells.push_back({.text = std::to_string(num_heads_at(lesson, place))});
    return result;
  };
  Column layers = layer_column(lesson);
  layers.cells.push_back({.text = "all"});
  std::vector<Column> columns;
  for (Place place : kPlaces) columns.push_back(counts(place_name(lesson, place), place));
  columns.push_back(counts("no one place", std::nullopt));
  return table(layers, columns, style);
}

}  // namespace

std::string scale_view(const ScaleLesson& lesson, const Style& style) {
  const ScaleOptions& options = lesson.options;
  const auto num_keys = static_cast<double>(options.num_keys);
  std::string view = wrapped("Why scores are divided by sqrt(d_k)", "", style);
  view += heading("1. The variance of q.k", style);
  view += explanation(std::to_string(options.num_pairs) +
                          " pairs of a query and a key for each d_k (the width of a head); their components are normal "
                          "random numbers with mean 0 and variance 1, seed " +
                          std::to_string(options.seed) +
                          ". The scores are those of qkv's attention, which divides unless it is told another scale. "
                          "chance: what chance alone does to a measured variance (standard error).",
                      style);
  view += variance_table(lesson, style);
  view += heading("2. What softmax makes of it", style);
  view += explanation(
      std::to_string(options.batch * options.num_queries) + " rows of attention weights w over " +
          std::to_string(options.num_keys) +
          " keys, of the same kind of random numbers. largest: the largest weight of a row. entropy: in nats, " +
          number_text(std::log(num_keys)) +
          " for equal weights, 0 where one key has all. gradient: the sum of |dw_i/ds_j| over all i and j (s: the "
          "scores "
          "that enter softmax), " +
          number_text(2 * (1 - 1 / num_keys)) +
          " for equal weights, 0 where one key has all. All are means over the rows; median: of the gradient.",
      style);
  view += saturation_table(lesson, style);
  return view + claim_lines(claims_of(lesson), style);
}

std::string heads_view(const HeadsLesson& lesson, const std::string& text, const Style& style) {
  Picture summary;  // only what the first line says
  summary.model = lesson.model;
  summary.num_layers = static_cast<Index>(lesson.layers.size());
  summary.num_heads = lesson.num_heads();
  summary.num_tokens = lesson.len();
  constexpr Index kMostLines = 3;
  const std::string shown = cut_to_width(printable(text), kMostLines * style.width, symbols(style).ellipsis);
  const std::string heads = std::to_string(lesson.num_heads()) + (lesson.num_heads() == 1 ? " head" : " heads");

  std::string view = header_line(summary, style) + wrapped("\"" + shown + "\"", "", style);
  view += heading("1. How much a token looks at itself (diagonal mass)", style);
  view += explanation("The weight of a token on itself, mean over the " + std::to_string(lesson.num_queries) +
                          " tokens that are not special. An even look would give " +
                          percent_text(1 / static_cast<double>(lesson.len())) + ".",
                      style);
  view += diagonal_table(lesson, style);
  view += heading("2. One head against several", style);
  view += explanation(
      "plain: no learned weights, softmax(x x^T / sqrt(" + std::to_string(lesson.embed_dim) +
          ")) of what enters the layer. one head: the layer's W_q and W_k as a single head of width " +
          std::to_string(lesson.embed_dim) + ". " + heads +
          ": as trained, their weights averaged. tokens reached: e to the entropy of the weights. strongest: how many "
          "different tokens the heads look at most from one token; a single head has 1.",
      style);
  view += one_against_several_table(lesson, heads, style);
  view += heading("3. Where the heads look instead", style);
  view +=
      explanation("mostly: half of the weight or more. Neighbours that are special do not count as neighbours.", style);
  view += places_table(lesson, style);
  return view + claim_lines(claims_of(lesson), style);
}

}  // namespace qkv::viewer
