#include "viewer/picture.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "qkv/core/check.h"
#include "viewer/link.h"

namespace qkv::viewer {
namespace {

constexpr const char* kFunction = "look";
constexpr std::size_t kNumNext = 2;

void check_in_range(const char* what, Index got, Index size) {
  if (got >= 0 && got < size) return;
  throw std::out_of_range(std::string(kFunction) + ": " + what + ": got " + std::to_string(got) + ", expected 0 to " +
                          std::to_string(size - 1));
}

void check_options(const Record& record, const PictureOptions& options) {
  if (options.layer) check_in_range("layer", *options.layer, record.num_layers());
  if (options.head) check_in_range("head", *options.head, record.num_heads());
  for (const auto& run : {options.from, options.to}) {
    if (!run) continue;
    check_in_range("token", run->begin, record.len());
    check_in_range("token", run->end - 1, record.len());
    check(run->size() > 0, kFunction, "token run", run->size(), "at least one token");
  }
}

// A run among the visible tokens only. `what` is "from" or "to".
TokenRun visible_run(const char* what, TokenRun run, const Record& record, const std::vector<bool>& visible) {
  for (Index i = run.begin; i < run.end; ++i)
    check(visible[i], kFunction, what, "\"" + record.tokens[i].text + "\", which is hidden", "a token that is shown");
  const Index before = std::count(visible.begin(), visible.begin() + run.begin, true);
  return {before, before + run.size()};
}

// Fills queries, keys, weights and what is hidden from the head that picture.layer and picture.head name.
void fill_weights(const Record& record, const std::vector<bool>& visible, Picture& picture) {
  std::vector<Index> shown, hidden;
  for (Index i = 0; i < record.len(); ++i) {
    (visible[i] ? shown : hidden).push_back(i);
    (visible[i] ? picture.keys : picture.hidden_keys).push_back(record.tokens[i]);
  }
  picture.queries = picture.keys;
  const Index num_shown = static_cast<Index>(shown.size()), num_hidden = static_cast<Index>(hidden.size());
  const auto weights = record.weights(picture.layer, picture.head);
  picture.weights = Tensor<float, 2>({num_shown, num_shown});
  picture.hidden_weights = Tensor<float, 2>({num_shown, num_hidden});
  const auto divisors = row_divisors(weights, {visible, picture.special});
  for (Index i = 0; i < num_shown; ++i) {
    for (Index j = 0; j < num_shown; ++j)
      picture.weights(i, j) = static_cast<float>(weights(shown[i], shown[j]) / divisors[shown[i]]);
    for (Index j = 0; j < num_hidden; ++j) picture.hidden_weights(i, j) = weights(shown[i], hidden[j]);
  }
}

// The words that `from` looks at most, beside the link itself.
std::vector<TokenWeight> next_words(const Record& record, CView<2> weights, const std::vector<double>& divisors,
                                    const Link& link, const Shown& shown) {
  std::vector<TokenWeight> words;
  for (Index j = 0; j < record.len(); ++j) {
    if (!shown.visible[j] || link.from.contains(j) || link.to.contains(j) || !is_content(record.tokens[j])) continue;
    words.push_back({j, static_cast<float>(link_weight(weights, divisors, {link.from, {j, j + 1}}))});
  }
  const auto count = std::min(words.size(), kNumNext);
  std::partial_sort(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(count), words.end(),
                    [](const TokenWeight& a, const TokenWeight& b) { return is_stronger(a.weight, b.weight); });
  words.resize(count);
  for (TokenWeight& word : words)  // as the picture counts
    word.token = std::count(shown.visible.begin(), shown.visible.begin() + word.token, true);
  return words;
}

std::vector<RankedHead> rank_heads(const Record& record, const std::vector<HeadId>& heads, const Link& link,
                                   const Shown& shown) {
  std::vector<RankedHead> ranking;
  for (const HeadId& id : heads) {
    const auto weights = record.weights(id.layer, id.head);
    const auto divisors = row_divisors(weights, shown);
    ranking.push_back({.layer = id.layer,
                       .head = id.head,
                       .weight = static_cast<float>(link_weight(weights, divisors, link)),
                       .next = next_words(record, weights, divisors, link, shown)});
  }
  std::ranges::stable_sort(ranking,
                           [](const RankedHead& a, const RankedHead& b) { return is_stronger(a.weight, b.weight); });
  return ranking;
}

std::vector<HeadId> heads_of(const Record& record, const PictureOptions& options) {
  std::vector<HeadId> heads;
  for (Index layer = 0; layer < record.num_layers(); ++layer)
    for (Index head = 0; head < record.num_heads(); ++head)
      if (layer == options.layer.value_or(layer) && head == options.head.value_or(head)) heads.push_back({layer, head});
  return heads;
}

std::string reason_of(const PictureOptions& options, const Record& record, const Link& link) {
  const auto name = [&](TokenRun run) { return "\"" + text_of(record.tokens, run) + "\""; };
  std::string reason = "the strongest link ";
  if (options.from) reason += "from " + name(link.from) + " ";
  if (options.to) reason += "to " + name(link.to) + " ";
  reason += options.layer && options.head ? "of this head" : "of any head";
  if (options.layer && !options.head) reason += " in layer " + std::to_string(*options.layer);
  return reason + ", between words that are not neighbours; special tokens and punctuation left out";
}

Picture picture_of(const Record& record, const PictureOptions& options) {
  const Shown shown{visible_tokens(record, options.special), options.special};
  check(std::ranges::count(shown.visible, true) > 0, kFunction, "text", "special tokens only, which are hidden",
        "a token to show");
  if (options.from) visible_run("from", *options.from, record, shown.visible);
  if (options.to) visible_run("to", *options.to, record, shown.visible);

  const auto heads = heads_of(record, options);
  const bool one_head = options.layer && options.head;
  const bool needs_pick = !options.from || (!options.to && !one_head);
  Link link{options.from.value_or(TokenRun{}), options.to.value_or(TokenRun{})};
  if (needs_pick) link = strongest_link(record, heads, {options.from, options.to}, shown);

  Picture picture;
  picture.model = record.model;
  picture.num_layers = record.num_layers();
  picture.num_heads = record.num_heads();
  picture.num_tokens = record.len();
  picture.special = options.special;
  if (!one_head) picture.ranking = rank_heads(record, heads, link, shown);
  picture.layer = one_head ? *options.layer : picture.ranking.front().layer;
  picture.head = one_head ? *options.head : picture.ranking.front().head;
  fill_weights(record, shown.visible, picture);
  picture.from = visible_run("from", link.from, record, shown.visible);
  if (needs_pick || options.to) picture.to = visible_run("to", link.to, record, shown.visible);
  if (needs_pick) picture.reason = reason_of(options, record, link);
  return picture;
}

}  // namespace

std::vector<float> row_of(CView<2> weights, TokenRun from) {
  std::vector<float> row(static_cast<std::size_t>(weights.shape(1)));
  for (Index j = 0; j < weights.shape(1); ++j) {
    double sum = 0;
    for (Index i = from.begin; i < from.end; ++i) sum += weights(i, j);
    row[j] = static_cast<float>(sum / static_cast<double>(from.size()));
  }
  return row;
}

Picture make_picture(const Record& record, const PictureOptions& options) {
  check(record.len() > 0 && record.num_layers() > 0 && record.num_heads() > 0, kFunction, "record",
        "no tokens or no heads", "both");
  check_options(record, options);
  if (!options.words) return picture_of(record, options);
  PictureOptions of_words = options;
  if (options.from) of_words.from = words_of(record, *options.from);
  if (options.to) of_words.to = words_of(record, *options.to);
  Picture picture = picture_of(merge_words(record), of_words);
  picture.words = true;
  picture.num_tokens = record.len();
  return picture;
}

}  // namespace qkv::viewer
