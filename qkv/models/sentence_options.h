#pragma once

#include <string>

#include "qkv/models/config.h"

namespace qkv {

/// How the last hidden states of a sentence's tokens become one vector.
enum class Pooling {
  kMean,  ///< mean over the real tokens, special ones included
  kCls,   ///< the first token
  kMax,   ///< largest value of each dimension over the real tokens
};

/// How a model of the sentence-transformers library makes a sentence embedding.
struct SentenceOptions {
  Pooling pooling = Pooling::kMean;  ///< many vectors to one
  bool normalize = false;            ///< divide by the L2 norm
  Index max_tokens = 0;              ///< longer sentences are cut, special tokens counted
};

/// Reads modules.json of a folder and what it names: sentence_bert_config.json (max_seq_length) and the pooling
/// module's config.json. max_tokens is never more than config.max_positions.
/// Edge: without modules.json, what sentence-transformers does for a plain model: mean pooling, no normalisation, cut
///   at max_positions.
/// Errors: IoError if a file that is named cannot be read; FormatError for modules other than Transformer, Pooling and
///   Normalize in this order, for a Transformer in a folder of its own, and for pooling modes other than mean, cls or max.
SentenceOptions load_sentence_options(const std::string& folder, const BertConfig& config);

}  // namespace qkv
