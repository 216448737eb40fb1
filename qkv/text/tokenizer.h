#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/text/added_tokens.h"
#include "qkv/text/basic_tokenizer.h"
#include "qkv/text/utf8.h"
#include "qkv/text/vocab.h"
#include "qkv/text/word_piece.h"

namespace qkv {

/// A text as a model reads it. All vectors have one entry per token.
struct Encoding {
  std::vector<std::int32_t> ids;    ///< what the model reads
  std::vector<std::string> tokens;  ///< "##ing" with its prefix, [UNK] for an unknown word
  std::vector<ByteRange>
      offsets;  ///< the bytes of the input that the token stands for; 0, 0 if it was put around the text
  std::vector<bool> is_special;  ///< put around the text, or a special token typed in it; not the [UNK] of a word
  /// Which word of the text the token belongs to, counted from 0: the pieces of one word share it, a punctuation mark
  /// or an added token is a word of its own. Absent where the token was put around the text.
  std::vector<std::optional<Index>> word_indices;

  /// Number of tokens.
  Index size() const { return static_cast<Index>(ids.size()); }
};

/// What may differ from text to text.
struct EncodeOptions {
  /// Whether special tokens typed in the text, such as [MASK], become that token. False for text from strangers: then
  /// they are cut like any other text.
  bool parse_special = true;
};

/// What a tokenizer is made of; read_tokenizer_json and read_vocab_txt give it.
struct TokenizerParts {
  Vocab vocab;         ///< the pieces of words; most special tokens are among them
  Vocab extra_tokens;  ///< the added tokens that `vocab` lacks: their ids follow its ids, and no word is cut into them
  BertNormalizer normalizer;             ///< what is done to the text first
  WordPiece word_piece;                  ///< how words are cut
  std::vector<AddedToken> added_tokens;  ///< looked for before words are cut
  std::vector<std::int32_t> before;      ///< ids put before every text: [CLS]
  std::vector<std::int32_t> after;       ///< ids put after every text: [SEP]
};

/// The id of a token of either vocabulary, or nothing.
std::optional<std::int32_t> find_id(const TokenizerParts& parts, std::string_view token);

/// BERT's tokeniser: text to ids, equal to those of Hugging Face's `tokenizers` without padding and truncation.
class Tokenizer {
 public:
  /// Errors: std::invalid_argument for an id that no token has, an added token whose id is not that of its content, and
  ///   contents of added tokens as AddedTokenFinder.
  explicit Tokenizer(TokenizerParts parts);

  /// Reads tokenizer.json from a Hugging Face folder, else vocab.txt with tokenizer_config.json beside it.
  /// Edge: where there is a tokenizer.json, it alone counts. The padding and truncation it asks for are not applied.
  /// Errors: FormatError for a file that is broken or asks for what is not supported; IoError.
  static Tokenizer load(const std::string& folder);

  /// Cuts a text into tokens and puts the special tokens around it.
  /// Edge: an empty text gives the special tokens alone.
  /// Errors: std::invalid_argument "encode: text: got byte 0xNN at offset K, expected valid UTF-8".
  /// Threads: safe to call from several threads at once.
  /// Source: Devlin et al., arXiv:1810.04805.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// The id of a token, or nothing.
  std::optional<std::int32_t> id_of(std::string_view token) const { return find_id(parts_, token); }
  /// Errors: std::out_of_range unless 0 <= id < vocab_size().
  const std::string& token_of(std::int32_t id) const;
  /// How many ids there are, added tokens counted.
  Index vocab_size() const { return parts_.vocab.size() + parts_.extra_tokens.size(); }

 private:
  void encode_part(const TextPart& part, Encoding& encoding, Index& num_words) const;

  TokenizerParts parts_;
  AddedTokenFinder typed_tokens_;
  AddedTokenFinder normalized_tokens_;
};

}  // namespace qkv
