#pragma once

#include <span>
#include <string>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/models/load_model.h"

namespace qkv {

/// What embed_sentences() returns.
struct SentenceEmbeddings {
  Tensor<float, 2> vectors;      ///< [sentences, embed_dim]
  std::vector<Index> truncated;  ///< numbers of the sentences that were cut, rising, counted from 0
};

/// One vector for each sentence, as model.sentence says (sentence-transformers' encode()).
/// Edge: an empty sentence is the special tokens alone. A sentence of more than max_tokens tokens keeps the first
///   max_tokens - 1 and its last one, [SEP].
/// Errors: std::invalid_argument for a sentence that is not UTF-8 (the message holds its number); as of forward().
/// Cost: memory for some thousand tokens at a time, whatever the number of sentences.
/// Threads: runs on run.executor.
SentenceEmbeddings embed_sentences(const LoadedModel& model, std::span<const std::string> sentences,
                                   const Run& run = {});

}  // namespace qkv
