#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "viewer/record.h"

namespace qkv::viewer::testing {

using Rows = std::vector<std::vector<float>>;

/// Tokens that are a word each, but those that begin with ##; in brackets: special.
inline std::vector<RecordToken> tokens(std::initializer_list<std::string> texts) {
  std::vector<RecordToken> result;
  for (const std::string& text : texts) {
    const bool continues = text.starts_with("##");
    const Index word = result.empty() ? 0 : result.back().word + (continues ? 0 : 1);
    result.push_back({.text = text, .is_special = text.starts_with('[') && text.ends_with(']'), .word = word});
  }
  return result;
}

/// A record of heads[layer][head], each the rows of its weights.
inline Record record(std::initializer_list<std::string> texts, const std::vector<std::vector<Rows>>& heads) {
  Record result{.model = "toy", .tokens = tokens(texts), .attn_weights = {}};
  for (const auto& layer : heads) {
    Tensor<float, 4> weights({1, static_cast<Index>(layer.size()), result.len(), result.len()});
    for (std::size_t h = 0; h < layer.size(); ++h)
      for (std::size_t i = 0; i < layer[h].size(); ++i)
        for (std::size_t j = 0; j < layer[h][i].size(); ++j) weights(0, h, i, j) = layer[h][i][j];
    result.attn_weights.push_back(std::move(weights));
  }
  return result;
}

inline std::vector<std::string> texts_of(const std::vector<RecordToken>& tokens) {
  std::vector<std::string> texts;
  for (const RecordToken& token : tokens) texts.push_back(token.text);
  return texts;
}

inline Rows rows_of(CView<2> weights) {
  Rows rows;
  for (Index i = 0; i < weights.shape(0); ++i) {
    rows.emplace_back();
    for (Index j = 0; j < weights.shape(1); ++j) rows.back().push_back(weights(i, j));
  }
  return rows;
}

}  // namespace qkv::viewer::testing
