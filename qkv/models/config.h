#pragma once

#include <string>

#include "qkv/core/index.h"
#include "qkv/nn/linear.h"

namespace qkv {

/// What config.json says of a model of type `bert`, in our words (the file's in brackets).
struct BertConfig {
  Index vocab_size = 0;                          ///< [vocab_size]
  Index embed_dim = 0;                           ///< [hidden_size]
  Index num_blocks = 0;                          ///< [num_hidden_layers]
  Index num_heads = 0;                           ///< [num_attention_heads]; divides embed_dim
  Index ffn_dim = 0;                             ///< [intermediate_size]
  Index max_positions = 0;                       ///< [max_position_embeddings]: the most tokens of one sequence
  Index num_token_types = 2;                     ///< [type_vocab_size]
  double layer_norm_eps = 1e-12;                 ///< [layer_norm_eps]
  Activation activation = Activation::kGeluErf;  ///< [hidden_act]
};

/// Reads and checks a config.json field by field. type_vocab_size, layer_norm_eps, hidden_act and
/// position_embedding_type may be absent and then are what transformers takes; fields that only training reads are not
/// looked at.
/// Errors: IoError if the file cannot be read. FormatError, naming the field, if the file is no JSON object, model_type
///   is not `bert`, a field is missing, of the wrong kind or out of range, num_attention_heads does not divide
///   hidden_size, or the model is of a kind that is not supported (decoder, cross-attention, pruned heads, relative
///   positions).
BertConfig load_bert_config(const std::string& path);

}  // namespace qkv
