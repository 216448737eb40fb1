#include "viewer/link.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "viewer/display_text.h"

namespace qkv::viewer {
namespace {

// How many of `words` lie wholly between two runs; negative where the runs overlap.
Index num_between(const std::vector<TokenRun>& words, TokenRun a, TokenRun b) {
  if (a.begin > b.begin) std::swap(a, b);
  if (a.end > b.begin) return -1;
  const auto first = std::ranges::lower_bound(words, a.end, {}, &TokenRun::begin);
  const auto last = std::ranges::upper_bound(words, b.begin, {}, &TokenRun::end);
  return std::max<Index>(last - first, 0);
}

std::vector<TokenRun> candidate_words(const Record& record, const Shown& shown) {
  const std::function<bool(Index)> tests[] = {
      [&](Index i) { return shown.visible[i] && is_content(record.tokens[i]); },
      [&](Index i) { return shown.visible[i] && !record.tokens[i].is_special; },
      [&](Index i) { return shown.visible[i]; },
  };
  std::vector<TokenRun> words;
  for (const auto& is_candidate : tests) {
    for (const TokenRun& run : word_runs(record.tokens))
      if (is_candidate(run.begin)) words.push_back(run);
    if (!words.empty()) break;
  }
  return words;
}

std::vector<Link> candidate_links(const std::vector<TokenRun>& words, const LinkEnds& ends, Index least_between) {
  const std::vector<TokenRun> froms = ends.from ? std::vector{*ends.from} : words;
  const std::vector<TokenRun> tos = ends.to ? std::vector{*ends.to} : words;
  std::vector<Link> links;
  for (const TokenRun& from : froms)
    for (const TokenRun& to : tos)
      if (num_between(words, from, to) >= least_between) links.push_back({from, to});
  return links;
}

}  // namespace

std::vector<bool> visible_tokens(const Record& record, SpecialTokens special) {
  std::vector<bool> visible;
  for (const RecordToken& token : record.tokens)
    visible.push_back(special == SpecialTokens::kShow || !token.is_special);
  return visible;
}

bool is_content(const RecordToken& token) {
  return !token.is_special && has_content(token.text);
}

std::vector<double> row_divisors(CView<2> weights, const Shown& shown) {
  std::vector<double> divisors(static_cast<std::size_t>(weights.shape(0)), 1.0);
  if (shown.special != SpecialTokens::kRenormalise) return divisors;
  for (Index i = 0; i < weights.shape(0); ++i) {
    double sum = 0;
    for (Index j = 0; j < weights.shape(1); ++j) sum += shown.visible[j] ? weights(i, j) : 0.0F;
    if (sum != 0) divisors[i] = sum;
  }
  return divisors;
}

double link_weight(CView<2> weights, const std::vector<double>& divisors, const Link& link) {
  double total = 0;
  for (Index i = link.from.begin; i < link.from.end; ++i) {
    double sum = 0;
    for (Index j = link.to.begin; j < link.to.end; ++j) sum += weights(i, j);
    total += sum / divisors[i];
  }
  return total / static_cast<double>(link.from.size());
}

bool is_stronger(double a, double b) {
  return std::isnan(b) ? !std::isnan(a) : a > b;
}

Link strongest_link(const Record& record, const std::vector<HeadId>& heads, const LinkEnds& ends, const Shown& shown) {
  const auto words = candidate_words(record, shown);
  std::vector<Link> links;
  for (const Index least_between : {1, 0, -1}) {
    links = candidate_links(words, ends, least_between);
    if (!links.empty()) break;
  }
  Link strongest = links.front();
  double strongest_weight = std::numeric_limits<double>::quiet_NaN();
  for (const HeadId& id : heads) {
    const auto weights = record.weights(id.layer, id.head);
    const auto divisors = row_divisors(weights, shown);
    for (const Link& link : links) {
      const double weight = link_weight(weights, divisors, link);
      if (!is_stronger(weight, strongest_weight)) continue;
      strongest = link;
      strongest_weight = weight;
    }
  }
  return strongest;
}

}  // namespace qkv::viewer
