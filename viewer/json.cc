#include "viewer/json.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace qkv::viewer {
namespace {

// Rises when a member changes its meaning.
constexpr int kSchema = 1;

std::string_view name_of(SpecialTokens special) {
  switch (special) {
    case SpecialTokens::kHide:
      return "hide";
    case SpecialTokens::kRenormalise:
      return "renormalise";
    default:
      return "show";
  }
}

Json texts_of(const std::vector<RecordToken>& tokens) {
  Json texts = Json::array();
  for (const RecordToken& token : tokens) texts.push_back(token.text);
  return texts;
}

Json rows_of(CView<2> weights) {
  Json rows = Json::array();
  for (Index i = 0; i < weights.shape(0); ++i) {
    Json row = Json::array();
    for (Index j = 0; j < weights.shape(1); ++j) row.push_back(weights(i, j));
    rows.push_back(std::move(row));
  }
  return rows;
}

Json places_of(TokenRun run) {
  Json places = Json::array();
  for (Index i = run.begin; i < run.end; ++i) places.push_back(i);
  return places;
}

Json to_json(const RankedHead& ranked) {
  Json next = Json::array();
  for (const TokenWeight& word : ranked.next) next.push_back({{"token", word.token}, {"weight", word.weight}});
  return {{"layer", ranked.layer}, {"head", ranked.head}, {"weight", ranked.weight}, {"next", std::move(next)}};
}

}  // namespace

std::string to_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json to_json(const Picture& picture) {
  Json json = {{"schema", kSchema}, {"model", picture.model}};
  const auto text = [](const RecordToken& token) -> const std::string& { return token.text; };
  if (std::ranges::equal(picture.queries, picture.keys, {}, text, text)) {
    json["tokens"] = texts_of(picture.keys);
  } else {
    json["queries"] = texts_of(picture.queries);
    json["keys"] = texts_of(picture.keys);
  }
  json["words"] = picture.words;
  json["special"] = name_of(picture.special);
  json["layer"] = picture.layer;
  json["head"] = picture.head;
  if (picture.from) json["from"] = places_of(*picture.from);
  if (picture.to) json["to"] = places_of(*picture.to);
  if (!picture.reason.empty()) json["reason"] = picture.reason;
  json["weights"] = rows_of(picture.weights);
  if (!picture.hidden_keys.empty())
    json["hidden"] = {{"tokens", texts_of(picture.hidden_keys)}, {"weights", rows_of(picture.hidden_weights)}};
  if (!picture.ranking.empty()) {
    Json& ranking = json["ranking"] = Json::array();
    for (const RankedHead& ranked : picture.ranking) ranking.push_back(to_json(ranked));
  }
  return json;
}

}  // namespace qkv::viewer
