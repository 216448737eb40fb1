#include "viewer/lesson_json.h"

#include <utility>

namespace qkv::viewer {
namespace {

// Rises when a member changes its meaning.
constexpr int kSchema = 1;

float to_float(double number) {
  return static_cast<float>(number);
}

Json to_json(const std::vector<Claim>& claims) {
  Json json = Json::array();
  for (const Claim& claim : claims)
    json.push_back({{"claim", claim.claim}, {"holds", claim.holds}, {"evidence", claim.evidence}});
  return json;
}

Json to_json(const ScoreVariance& row) {
  return {{"head_dim", row.head_dim},
          {"undivided", to_float(row.undivided)},
          {"undivided_expected", row.head_dim},
          {"divided", to_float(row.divided)},
          {"divided_expected", 1},
          {"relative_error", to_float(row.relative_error)}};
}

Json to_json(const SoftmaxStats& stats) {
  return {{"largest_weight", to_float(stats.largest_weight)},
          {"entropy", to_float(stats.entropy)},
          {"gradient", to_float(stats.gradient)},
          {"median_gradient", to_float(stats.median_gradient)}};
}

Json to_json(const Look& look) {
  const Shares& shares = look.shares;
  return {{"self", to_float(shares.self)},      {"previous", to_float(shares.previous)},
          {"next", to_float(shares.next)},      {"cls", to_float(shares.cls)},
          {"sep", to_float(shares.sep)},        {"other", to_float(shares.other)},
          {"num_keys", to_float(look.num_keys)}};
}

Json to_json(const std::optional<Place>& place) {
  if (!place) return nullptr;
  switch (*place) {
    case Place::kSelf:
      return "self";
    case Place::kPrevious:
      return "previous";
    case Place::kNext:
      return "next";
    case Place::kCls:
      return "cls";
    case Place::kSep:
      break;
  }
  return "sep";
}

Json to_json(const LayerLook& layer) {
  Json heads = Json::array();
  for (const Look& look : layer.heads) {
    Json head = to_json(look);
    head["main_place"] = to_json(main_place(look.shares));
    heads.push_back(std::move(head));
  }
  return {{"plain", to_json(layer.plain)},
          {"one_head", to_json(layer.one_head)},
          {"together", to_json(layer.together)},
          {"num_strongest", to_float(layer.num_strongest)},
          {"heads", std::move(heads)}};
}

}  // namespace

Json to_json(const ScaleLesson& lesson) {
  const ScaleOptions& options = lesson.options;
  Json variances = Json::array(), softmax = Json::array();
  for (const ScoreVariance& row : lesson.variances) variances.push_back(to_json(row));
  for (const Saturation& row : lesson.saturations)
    softmax.push_back(
        {{"head_dim", row.head_dim}, {"divided", to_json(row.divided)}, {"undivided", to_json(row.undivided)}});
  return {{"schema", kSchema},
          {"lesson", "scale"},
          {"seed", options.seed},
          {"variance", {{"num_pairs", options.num_pairs}, {"rows", std::move(variances)}}},
          {"softmax",
           {{"num_rows", options.batch * options.num_queries},
            {"num_keys", options.num_keys},
            {"gradient_is", "sum over i and j of |dw_i/ds_j|"},
            {"rows", std::move(softmax)}}},
          {"claims", to_json(claims_of(lesson))}};
}

Json to_json(const HeadsLesson& lesson, const std::string& text) {
  Json tokens = Json::array(), layers = Json::array();
  for (const RecordToken& token : lesson.tokens) tokens.push_back(token.text);
  for (const LayerLook& layer : lesson.layers) layers.push_back(to_json(layer));
  return {{"schema", kSchema},
          {"lesson", "heads"},
          {"model", lesson.model},
          {"text", text},
          {"tokens", std::move(tokens)},
          {"num_queries", lesson.num_queries},
          {"even_weight", to_float(1 / static_cast<double>(lesson.len()))},
          {"layers", std::move(layers)},
          {"claims", to_json(claims_of(lesson))}};
}

}  // namespace qkv::viewer
