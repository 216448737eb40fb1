// A text for the tokenizer, after two bytes that choose how it is set up.

#include <array>
#include <map>
#include <utility>

#include "fuzz/encoding_checks.h"
#include "fuzz/fuzz_support.h"

namespace qkv::fuzz {
namespace {

constexpr std::array kTokens{"[UNK]",    "[CLS]", "[SEP]",  "[MASK]",   "a", "b",   "ab", "##a", "##b",
                             "##ab",     "the",   "##s",    ".",        ",", "'",   "#",  "e",   "\u00e9",
                             "##\u00e9", "##e",   "\u4e2d", "##\u6587", "i", "##i", "1",  "##1"};

// Which settings a byte turns on.
enum NormalizerBit { kClean = 1, kChinese = 2, kLowercase = 4, kStripAbsent = 8, kStrip = 16 };
enum AddedBit { kSingleWord = 1, kLstrip = 2, kRstrip = 4, kNormalized = 8 };

Tokenizer make_tokenizer(unsigned normalizer, unsigned added) {
  TokenizerParts parts;
  parts.vocab = Vocab({kTokens.begin(), kTokens.end()});
  parts.extra_tokens = Vocab({"<x>", "the A"});
  parts.normalizer = {.clean_text = (normalizer & kClean) != 0,
                      .handle_chinese_chars = (normalizer & kChinese) != 0,
                      .strip_accents = std::nullopt,
                      .lowercase = (normalizer & kLowercase) != 0};
  if (!(normalizer & kStripAbsent)) parts.normalizer.strip_accents = (normalizer & kStrip) != 0;
  for (const char* content : {"[UNK]", "[CLS]", "[SEP]", "[MASK]", "<x>", "the A"}) {
    const bool special = content[0] == '[';
    parts.added_tokens.push_back({.id = *find_id(parts, content),
                                  .content = content,
                                  .single_word = !special && (added & kSingleWord),
                                  .lstrip = (added & kLstrip) != 0,
                                  .rstrip = (added & kRstrip) != 0,
                                  .normalized = !special && (added & kNormalized),
                                  .special = special});
  }
  parts.before = {1};
  parts.after = {2};
  return Tokenizer(std::move(parts));
}

// Where nothing is normalised, a piece is the bytes that it stands for.
void check_pieces(const Tokenizer& tokenizer, std::string_view text) {
  const Encoding encoding = tokenizer.encode(text, {.parse_special = false});
  for (Index i = 1; i + 1 < encoding.size(); ++i) {
    const ByteRange place = encoding.offsets[i];
    const std::string_view source = text.substr(place.begin, place.end - place.begin);
    std::string_view token = encoding.tokens[i];
    if (token == "[UNK]") continue;
    require(token == source || (token.starts_with("##") && token.substr(2) == source),
            "a piece is the text it stands for");
  }
}

// Text of strangers cannot hold a special token, and white space behind a text is nothing to the model.
void check_ids(const Tokenizer& tokenizer, const std::string& text) {
  const auto ids = tokenizer.encode(text, {.parse_special = false}).ids;
  for (std::size_t i = 1; i + 1 < ids.size(); ++i)
    require(ids[i] == 0 || ids[i] > 3, "a special token comes only from parse_special");
  require(tokenizer.encode(text + " \n", {.parse_special = false}).ids == ids, "white space at the end adds nothing");
}

void test(std::string_view bytes) {
  if (bytes.size() < 2) return;
  const unsigned normalizer = static_cast<unsigned char>(bytes[0]) % 32;
  const unsigned added = static_cast<unsigned char>(bytes[1]) % 16;
  const std::string text(bytes.substr(2));
  static std::map<std::pair<unsigned, unsigned>, Tokenizer> made;  // making one takes longer than its use
  const auto key = std::pair(normalizer, added);
  const auto found = made.find(key);
  const Tokenizer& tokenizer =
      found != made.end() ? found->second : made.emplace(key, make_tokenizer(normalizer, added)).first->second;
  check_encode(tokenizer, text);
  if (find_invalid_utf8(text)) return;
  check_ids(tokenizer, text);
  // A space put around an ideograph comes from the ideograph, and an added token may take it along (as `tokenizers` does).
  const bool takes_spaces = (normalizer & kChinese) && (added & kNormalized);
  if ((normalizer & (kClean | kLowercase | kStripAbsent | kStrip)) == 0 && !takes_spaces) check_pieces(tokenizer, text);
}

}  // namespace
}  // namespace qkv::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  qkv::fuzz::test(qkv::fuzz::to_text(data, size));
  return 0;
}
