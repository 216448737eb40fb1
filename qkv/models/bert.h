#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "qkv/attention/options.h"
#include "qkv/core/tensor.h"
#include "qkv/io/safetensors.h"
#include "qkv/models/config.h"
#include "qkv/nn/embedding.h"
#include "qkv/nn/norm.h"
#include "qkv/nn/transformer_block.h"

namespace qkv {

/// A BERT encoder: the sum of three embeddings, normalised, then a stack of post-norm blocks.
struct Bert {
  BertConfig config;                     ///< its sizes
  Embedding token_embedding;             ///< [vocab_size, embed_dim]
  Embedding position_embedding;          ///< [max_positions, embed_dim]
  Embedding token_type_embedding;        ///< [num_token_types, embed_dim]
  LayerNorm embedding_norm;              ///< of the sum of the three
  std::vector<TransformerBlock> blocks;  ///< [num_blocks]
};

/// What a run returns beside its last hidden state, and what it is told beside the tokens. Borrows what it points to.
struct BertOptions {
  /// How many leading tokens of each sequence are real; absent: all. Padding is computed but never attended to.
  std::optional<ValidLens> valid_lens = std::nullopt;
  /// Which sentence each token belongs to, [batch, len]; absent: all 0.
  std::optional<TensorView<const std::int32_t, 2>> token_types = std::nullopt;
  bool hidden_states = false;  ///< every one, not only the last
  bool attn_weights = false;   ///< those of every block and head
};

/// What a run returns.
struct BertOutput {
  /// [batch, len, embed_dim]: the last one or, if asked for, num_blocks + 1 of them: the embeddings, then what each
  /// block makes of the one before.
  std::vector<Tensor<float, 3>> hidden_states;
  /// [batch, num_heads, len, len] of each block, if asked for.
  std::vector<Tensor<float, 4>> attn_weights;
};

/// Runs the model.
/// Shapes: tokens [batch, len], any strides. Edge: batch or len may be 0.
/// Errors: std::invalid_argument if len > max_positions, or the shape of token_types or valid_lens is another;
///   std::out_of_range for a token or token type that the model does not have.
/// Threads: runs on run.executor; the bits of the result do not depend on the number of threads.
/// Source: https://arxiv.org/abs/1810.04805
BertOutput forward(const Bert& model, TensorView<const std::int32_t, 2> tokens, const BertOptions& options = {},
                   const Run& run = {});

/// The model that a file of weights holds. Names are those of transformers, with or without the prefix `bert.`; layer
/// norms may be called weight/bias or gamma/beta. Tensors that the encoder does not need (pooler, heads, buffers) are
/// left alone.
/// Errors: FormatError that lists every tensor that is missing, has another shape than `config` says, or holds no
///   floats.
Bert load_bert(const BertConfig& config, const SafetensorsFile& weights);

}  // namespace qkv
