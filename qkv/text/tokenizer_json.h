#pragma once

#include <string>

#include "qkv/text/tokenizer.h"

namespace qkv {

/// Reads a tokenizer.json of Hugging Face's `tokenizers`. Supported are model WordPiece, normalizer BertNormalizer or
/// none, pre_tokenizer BertPreTokenizer, post_processor TemplateProcessing (for one text, all types 0), BertProcessing
/// or none, decoder WordPiece or none, and added tokens with all their flags. Padding and truncation are not read.
/// Errors: FormatError for anything else, for ids that are not 0 .. number of tokens - 1, each once, and for special
///   tokens that the vocabulary does not have under the same id; IoError.
TokenizerParts read_tokenizer_json(const std::string& path);

}  // namespace qkv
