#include "viewer/record.h"

#include <algorithm>
#include <string_view>

#include "qkv/core/check.h"

namespace qkv::viewer {
namespace {

// WordPiece marks a piece that continues a word so.
constexpr std::string_view kContinuation = "##";

float merged_weight(CView<2> weights, TokenRun from, TokenRun to) {
  double sum = 0;
  for (Index i = from.begin; i < from.end; ++i)
    for (Index j = to.begin; j < to.end; ++j) sum += weights(i, j);
  return static_cast<float>(sum / static_cast<double>(from.size()));
}

Tensor<float, 4> merged_layer(const Record& record, Index layer, const std::vector<TokenRun>& words) {
  const Index len = static_cast<Index>(words.size());
  Tensor<float, 4> merged({1, record.num_heads(), len, len});
  for (Index h = 0; h < record.num_heads(); ++h)
    for (Index i = 0; i < len; ++i)
      for (Index j = 0; j < len; ++j) merged(0, h, i, j) = merged_weight(record.weights(layer, h), words[i], words[j]);
  return merged;
}

}  // namespace

std::vector<TokenRun> word_runs(const std::vector<RecordToken>& tokens) {
  std::vector<TokenRun> runs;
  for (Index i = 0; i < static_cast<Index>(tokens.size()); ++i) {
    const bool continues = i > 0 && tokens[i].word == tokens[i - 1].word;
    check(i == 0 || tokens[i].word >= tokens[i - 1].word, "word_runs", "word of token " + std::to_string(i),
          tokens[i].word, "a number that does not fall");
    if (continues) {
      ++runs.back().end;
    } else {
      runs.push_back({i, i + 1});
    }
  }
  return runs;
}

std::string text_of(const std::vector<RecordToken>& tokens, TokenRun run) {
  std::string text;
  for (Index i = run.begin; i < run.end; ++i) {
    std::string_view piece = tokens[i].text;
    const bool continues = i > run.begin && tokens[i].word == tokens[i - 1].word;
    if (continues && piece.starts_with(kContinuation)) piece.remove_prefix(kContinuation.size());
    if (i > run.begin && !continues) text += ' ';
    text += piece;
  }
  return text;
}

Record merge_words(const Record& record) {
  const auto words = word_runs(record.tokens);
  Record merged{.model = record.model, .tokens = {}, .attn_weights = {}};
  for (const TokenRun& word : words)
    merged.tokens.push_back({.text = text_of(record.tokens, word),
                             .is_special = record.tokens[word.begin].is_special,
                             .word = merged.len(),
                             .index = merged.len()});
  for (Index layer = 0; layer < record.num_layers(); ++layer)
    merged.attn_weights.push_back(merged_layer(record, layer, words));
  return merged;
}

TokenRun words_of(const Record& record, TokenRun run) {
  const auto words = word_runs(record.tokens);
  TokenRun result{static_cast<Index>(words.size()), 0};
  for (Index w = 0; w < static_cast<Index>(words.size()); ++w) {
    if (words[w].end <= run.begin || words[w].begin >= run.end) continue;
    result = {std::min(result.begin, w), w + 1};
  }
  return result;
}

}  // namespace qkv::viewer
