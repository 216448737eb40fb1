#pragma once

#include <string>

#include "qkv/text/tokenizer.h"

#pragma GCC visibility push(hidden)  // not for users: neither installed nor exported
namespace qkv {

/// Reads a vocab.txt (one token a line, the number of the line is its id, counted from 0) and the switches of the
/// tokenizer_config.json beside it: do_lower_case, strip_accents, tokenize_chinese_chars, and the names of the special
/// tokens. Without that file the switches are true, absent and true, the names [UNK], [CLS], [SEP], [PAD] and [MASK].
/// Edge: lines end in LF or CRLF, the last one may lack its end. An empty line is an id that no text gives.
/// Errors: FormatError for a token that is there twice, text that is not UTF-8, a missing [UNK], [CLS] or [SEP], a
///   tokenizer_class or an added token that needs more than this; IoError.
TokenizerParts read_vocab_txt(const std::string& vocab_path, const std::string& config_path);

}  // namespace qkv
#pragma GCC visibility pop
