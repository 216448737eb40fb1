#pragma once

#include <string>
#include <string_view>

#include "qkv/text/tokenizer.h"

#pragma GCC visibility push(hidden)  // not for users: neither installed nor exported
namespace qkv {

/// Parses the text of a tokenizer.json of Hugging Face's `tokenizers`. Supported are model WordPiece, normalizer
/// BertNormalizer or none, pre_tokenizer BertPreTokenizer, post_processor TemplateProcessing (for one text, all types
/// 0), BertProcessing or none, decoder WordPiece or none, and added tokens with all their flags. Padding and truncation
/// are not read. Errors: FormatError for anything else, for ids that are not 0 .. number of tokens - 1, each once, and
/// for special
///   tokens that the vocabulary does not have under the same id. They name `path`.
TokenizerParts parse_tokenizer_json(std::string_view text, const std::string& path);

/// Reads and parses a tokenizer.json. Errors: as parse_tokenizer_json, also for a file above 64 MiB; IoError.
TokenizerParts read_tokenizer_json(const std::string& path);

}  // namespace qkv
#pragma GCC visibility pop
