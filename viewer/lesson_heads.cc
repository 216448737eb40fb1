#include "viewer/lesson_heads.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <variant>

#include "qkv/attention/attention.h"
#include "qkv/core/check.h"
#include "viewer/display_text.h"

namespace qkv::viewer {
namespace {

constexpr double kHalf = 0.5;  // what "mostly" means in this lesson

// The tokens that are averaged over.
std::vector<Index> queries_of(const std::vector<RecordToken>& tokens) {
  std::vector<Index> queries, all;
  for (Index i = 0; i < static_cast<Index>(tokens.size()); ++i) {
    all.push_back(i);
    if (!tokens[i].is_special) queries.push_back(i);
  }
  return queries.empty() ? all : queries;
}

double& share_for(Shares& shares, const std::vector<RecordToken>& tokens, Index first_of_text, Index i, Index j) {
  if (i == j) return shares.self;
  if (tokens[j].is_special) return j < first_of_text ? shares.cls : shares.sep;
  if (j == i - 1) return shares.previous;
  return j == i + 1 ? shares.next : shares.other;
}

double num_keys_of(CView<1> row) {
  double entropy = 0;
  for (Index j = 0; j < row.shape(0); ++j)
    if (row(j) != 0) entropy -= row(j) * std::log(static_cast<double>(row(j)));
  return std::exp(entropy);
}

Tensor<float, 2> mean_over_heads(CView<3> attn_weights) {
  const Index num_heads = attn_weights.shape(0), len = attn_weights.shape(1);
  Tensor<float, 2> mean({len, len});
  for (Index i = 0; i < len; ++i) {
    for (Index j = 0; j < len; ++j) {
      double sum = 0;
      for (Index h = 0; h < num_heads; ++h) sum += attn_weights(h, i, j);
      mean(i, j) = static_cast<float>(sum / static_cast<double>(num_heads));
    }
  }
  return mean;
}

LayerLook measure_layer(const MultiHeadAttention& layer, CView<3> x, CView<3> attn_weights,
                        const std::vector<RecordToken>& tokens, Executor* executor) {
  const auto look_of_one = [&](CView<3> q, CView<3> k) {
    return look_of(one_head_weights(q, k, executor).view().select(0, 0).select(0, 0), tokens);
  };
  LayerLook look{.plain = look_of_one(x, x),
                 .one_head = look_of_one(forward(layer.q_proj, x, {executor}), forward(layer.k_proj, x, {executor})),
                 .heads = {},
                 .together = look_of(mean_over_heads(attn_weights), tokens),
                 .num_strongest = num_strongest_keys(attn_weights, tokens)};
  for (Index h = 0; h < attn_weights.shape(0); ++h) look.heads.push_back(look_of(attn_weights.select(0, h), tokens));
  return look;
}

struct Range {
  double least = 0, most = 0;
};

template <class Value>
Range range_over(const std::vector<LayerLook>& layers, const Value& value) {
  Range range{value(layers.front()), value(layers.front())};
  for (const LayerLook& layer : layers) {
    range.least = std::min(range.least, value(layer));
    range.most = std::max(range.most, value(layer));
  }
  return range;
}

std::string percents(const Range& range) {
  return range_text(percent_text(range.least), percent_text(range.most));
}

std::string numbers(const Range& range) {
  return range_text(tenths_text(range.least), tenths_text(range.most));
}

template <class Test>
std::size_t count_layers(const HeadsLesson& lesson, const Test& test) {
  return static_cast<std::size_t>(std::ranges::count_if(lesson.layers, test));
}

bool is_most(std::size_t count, const HeadsLesson& lesson) {
  return 2 * count > lesson.layers.size();
}

Claim plain_claim(const HeadsLesson& lesson) {
  const auto self = [](const LayerLook& layer) { return layer.plain.shares.self; };
  const auto count = count_layers(lesson, [&](const LayerLook& layer) { return self(layer) >= kHalf; });
  return {.claim = "Self-attention without learned weights looks mostly at its own position",
          .holds = is_most(count, lesson),
          .evidence = "a token gives itself " + percents(range_over(lesson.layers, self)) +
                      " of its weight, half or more " + count_text(count, lesson.layers.size(), "layer")};
}

Claim one_head_claim(const HeadsLesson& lesson) {
  const auto self = [](const LayerLook& layer) { return layer.one_head.shares.self; };
  const auto count = count_layers(lesson, [&](const LayerLook& layer) { return self(layer) >= kHalf; });
  return {.claim = "A single head with learned weights is dominated by its own word",
          .holds = is_most(count, lesson),
          .evidence = "each layer's W_q and W_k as one head give a token itself " +
                      percents(range_over(lesson.layers, self)) + " of its weight, half or more " +
                      count_text(count, lesson.layers.size(), "layer") +
                      " (these weights were trained as several heads; a layer trained with one may differ)"};
}

// "29 heads look mostly at [CLS], 1 at the next token, 42 at no one place".
std::string places_text(const HeadsLesson& lesson) {
  std::string text;
  const auto add = [&](std::optional<Place> place, const std::string& name) {
    const Index count = num_heads_at(lesson, place);
    if (count == 0) return;
    text += (text.empty() ? "" : ", ") + std::to_string(count);
    if (text.find(' ') == std::string::npos) text += count == 1 ? " head looks mostly" : " heads look mostly";
    text += " at " + name;
  };
  for (Place place : kPlaces) {
    const bool is_neighbour = place == Place::kPrevious || place == Place::kNext;
    const std::string name = place_name(lesson, place);
    add(place, is_neighbour ? "the " + name + " token" : name);
  }
  add(std::nullopt, "no one place");
  return text;
}

// What turned the look away from the own word, where something did.
std::string reason_text(const HeadsLesson& lesson) {
  if (!plain_claim(lesson).holds) return "";
  if (one_head_claim(lesson).holds)
    return "; one head with these weights is dominated, so here it is the number of heads that turns the look away";
  return "; one head with these weights is not dominated either, so here it is the learned weights that turn the look "
         "away, not the number of heads";
}

Claim not_dominated_claim(const HeadsLesson& lesson) {
  std::size_t count = 0, total = 0, best_layer = 0, best_head = 0;
  double best = -1, sum = 0;
  for (std::size_t layer = 0; layer < lesson.layers.size(); ++layer) {
    for (std::size_t head = 0; head < lesson.layers[layer].heads.size(); ++head) {
      const double self = lesson.layers[layer].heads[head].shares.self;
      ++total;
      count += self >= kHalf ? 1 : 0;
      sum += self;
      if (!(self > best)) continue;
      best = self;
      best_layer = layer;
      best_head = head;
    }
  }
  const double mean = sum / static_cast<double>(total), even = 1 / static_cast<double>(lesson.len());
  Claim claim{.claim = "With several heads a word is not dominated by itself"};
  claim.holds = lesson.num_heads() > 1 && 2 * count < total;
  claim.evidence = std::to_string(count) + " of " + std::to_string(total) +
                   " trained heads give a token itself half of its weight or more; the most is " + percent_text(best) +
                   " in layer " + std::to_string(best_layer) + " head " + std::to_string(best_head) + ", the mean " +
                   percent_text(mean) + ", where an even look would give " + percent_text(even) + "; " +
                   places_text(lesson) + (claim.holds ? reason_text(lesson) : "");
  return claim;
}

Claim several_heads_claim(const HeadsLesson& lesson) {
  constexpr double kSeveral = 2;
  const auto one = [](const LayerLook& layer) { return layer.one_head.num_keys; };
  const auto together = [](const LayerLook& layer) { return layer.together.num_keys; };
  const auto strongest = [](const LayerLook& layer) { return layer.num_strongest; };
  const auto count = count_layers(
      lesson, [&](const LayerLook& layer) { return strongest(layer) >= kSeveral && together(layer) > one(layer); });
  const std::string heads = std::to_string(lesson.num_heads()) + (lesson.num_heads() == 1 ? " head" : " heads");
  return {.claim = "Several heads spread the look",
          .holds = is_most(count, lesson),
          .evidence = "from the same token the " + heads + " of a layer look most at " +
                      numbers(range_over(lesson.layers, strongest)) +
                      " different tokens, a single head at 1; together they reach " +
                      numbers(range_over(lesson.layers, together)) + " tokens, one head " +
                      numbers(range_over(lesson.layers, one)) + "; two or more, and more reached than by one head, " +
                      count_text(count, lesson.layers.size(), "layer")};
}

}  // namespace

double share_of(const Shares& shares, Place place) {
  switch (place) {
    case Place::kSelf:
      return shares.self;
    case Place::kPrevious:
      return shares.previous;
    case Place::kNext:
      return shares.next;
    case Place::kCls:
      return shares.cls;
    case Place::kSep:
      break;
  }
  return shares.sep;
}

std::string place_name(const HeadsLesson& lesson, Place place) {
  const RecordToken &first = lesson.tokens.front(), &last = lesson.tokens.back();
  switch (place) {
    case Place::kSelf:
      return "itself";
    case Place::kPrevious:
      return "previous";
    case Place::kNext:
      return "next";
    case Place::kCls:
      return first.is_special ? printable(first.text) : "[CLS]";
    case Place::kSep:
      break;
  }
  return last.is_special ? printable(last.text) : "[SEP]";
}

Index num_heads_at(const LayerLook& layer, std::optional<Place> place) {
  return std::ranges::count_if(layer.heads, [&](const Look& look) { return main_place(look.shares) == place; });
}

Index num_heads_at(const HeadsLesson& lesson, std::optional<Place> place) {
  Index count = 0;
  for (const LayerLook& layer : lesson.layers) count += num_heads_at(layer, place);
  return count;
}

std::optional<Place> main_place(const Shares& shares) {
  for (Place place : kPlaces)
    if (share_of(shares, place) >= kHalf) return place;
  return std::nullopt;
}

Look look_of(CView<2> attn_weights, const std::vector<RecordToken>& tokens) {
  const auto len = static_cast<Index>(tokens.size());
  check_equal("look_of", "rows of attn_weights", attn_weights.shape(0), len);
  check_equal("look_of", "columns of attn_weights", attn_weights.shape(1), len);
  const auto queries = queries_of(tokens);
  Shares sums;
  double num_keys = 0;
  for (Index i : queries) {
    for (Index j = 0; j < len; ++j) share_for(sums, tokens, queries.front(), i, j) += attn_weights(i, j);
    num_keys += num_keys_of(attn_weights.select(0, i));
  }
  const auto count = static_cast<double>(queries.size());
  for (double* sum : {&sums.self, &sums.previous, &sums.next, &sums.cls, &sums.sep, &sums.other}) *sum /= count;
  return {.shares = sums, .num_keys = num_keys / count};
}

double num_strongest_keys(CView<3> attn_weights, const std::vector<RecordToken>& tokens) {
  const auto queries = queries_of(tokens);
  std::size_t sum = 0;
  for (Index i : queries) {
    std::set<Index> strongest;
    for (Index h = 0; h < attn_weights.shape(0); ++h) {
      const CView<1> row = attn_weights.select(0, h).select(0, i);
      Index best = 0;
      for (Index j = 1; j < row.shape(0); ++j)
        if (row(j) > row(best)) best = j;
      strongest.insert(best);
    }
    sum += strongest.size();
  }
  return static_cast<double>(sum) / static_cast<double>(queries.size());
}

Tensor<float, 4> one_head_weights(CView<3> q, CView<3> k, Executor* executor) {
  const auto as_one_head = [](CView<3> x) { return x.split_axis(1, x.shape(1)); };  // [1, 1, len, width]
  return attention(as_one_head(q), as_one_head(k), as_one_head(k),
                   {.observe = {.attn_weights = true}, .executor = executor})
      .attn_weights;
}

HeadsLesson measure_heads(const HeadsInput& input, Executor* executor) {
  constexpr const char* kFunction = "measure_heads";
  const auto len = static_cast<Index>(input.ids.size());
  check(len > 0, kFunction, "ids", len, "at least one");
  check_equal(kFunction, "tokens", static_cast<Index>(input.tokens.size()), len);
  HeadsLesson lesson{.model = input.model_name,
                     .tokens = input.tokens,
                     .num_queries = static_cast<Index>(queries_of(input.tokens).size()),
                     .embed_dim = 0,
                     .layers = {}};
  std::visit(
      [&](const auto& model) {
        const TensorView<const std::int32_t, 2> ids(input.ids.data(), {1, len});
        const auto output = forward(model, ids, {.hidden_states = true, .attn_weights = true}, {executor});
        lesson.embed_dim = model.config.embed_dim;
        for (std::size_t layer = 0; layer < model.blocks.size(); ++layer)
          lesson.layers.push_back(measure_layer(model.blocks[layer].attention, output.hidden_states[layer],
                                                output.attn_weights[layer].view().select(0, 0), input.tokens,
                                                executor));
      },
      input.model);
  return lesson;
}

std::vector<Claim> claims_of(const HeadsLesson& lesson) {
  return {plain_claim(lesson), one_head_claim(lesson), not_dominated_claim(lesson), several_heads_claim(lesson)};
}

}  // namespace qkv::viewer
