#pragma once

#include <string>

#include "qkv/models/any_model.h"
#include "qkv/models/sentence_options.h"
#include "qkv/text/tokenizer.h"

namespace qkv {

/// A model with everything that its folder says about it.
struct LoadedModel {
  std::string name;          ///< the folder's own name
  AnyModel model;            ///< weights and sizes
  Tokenizer tokenizer;       ///< text to the ids that the model reads
  SentenceOptions sentence;  ///< how its hidden states become a sentence embedding
};

/// Reads a local folder in Hugging Face's layout: config.json, model.safetensors, tokenizer.json or vocab.txt, and,
/// where they are there, modules.json and what it names.
/// Errors: IoError if the folder or a file of it cannot be read. FormatError if a file breaks its format, asks for what
///   is not supported, or weights do not fit config.json. std::invalid_argument if the tokenizer has more tokens than
///   the model, or there are weights, but only sharded ones (model.safetensors.index.json) or PyTorch's own
///   (pytorch_model.bin).
LoadedModel load_model(const std::string& folder);

}  // namespace qkv
