#pragma once

#include <string>
#include <vector>

#include "qkv/core/index.h"
#include "qkv/core/tensor.h"

namespace qkv::viewer {

/// A token as it is shown.
struct RecordToken {
  std::string text;
  bool is_special = false;  ///< known from the tokenizer, not guessed from brackets
  Index word = 0;           ///< the pieces of one word share it; neighbours that differ belong to different words
  Index index = 0;          ///< its place in the text, hidden tokens counted: what the user calls #index
};

/// What every picture is made of: the tokens of a text and where each head of a model makes each of them look.
struct Record {
  std::string model;
  std::vector<RecordToken> tokens;
  std::vector<Tensor<float, 4>> attn_weights;  ///< of each layer, [1, num_heads, len, len], rows are queries

  Index len() const { return static_cast<Index>(tokens.size()); }
  Index num_layers() const { return static_cast<Index>(attn_weights.size()); }
  Index num_heads() const { return attn_weights.empty() ? 0 : attn_weights.front().shape(1); }
  /// [len, len] of one head.
  CView<2> weights(Index layer, Index head) const { return attn_weights[layer].view().select(0, 0).select(0, head); }
};

/// Neighbouring tokens, [begin, end), that are looked at as one: a word, or some pieces of one.
struct TokenRun {
  Index begin = 0, end = 0;

  Index size() const { return end - begin; }
  bool contains(Index token) const { return token >= begin && token < end; }
  friend bool operator==(const TokenRun&, const TokenRun&) = default;
};

/// The tokens of each word, in order. Errors: std::invalid_argument if a word's tokens are not neighbours.
std::vector<TokenRun> word_runs(const std::vector<RecordToken>& tokens);

/// How a run is called: the pieces of a word together, without the prefix `##`, and a blank between words.
std::string text_of(const std::vector<RecordToken>& tokens, TokenRun run);

/// Words instead of pieces: attention to a split word is the sum over its pieces, attention from it the mean over its
/// pieces, so rows still sum to 1. A word is called as text_of() says; its index is its place.
Record merge_words(const Record& record);

/// The run of words in merge_words(record) that the tokens of `run` belong to.
TokenRun words_of(const Record& record, TokenRun run);

}  // namespace qkv::viewer
