// A vocab.txt and, after a NUL byte, the tokenizer_config.json beside it: refused in the documented way, or they make a
// tokenizer that works, whose ids are the numbers of the lines.

#include <optional>

#include "fuzz/encoding_checks.h"
#include "fuzz/fuzz_support.h"
#include "qkv/text/vocab_txt.h"

namespace qkv::fuzz {
namespace {

void check_lines(const Tokenizer& tokenizer, std::string_view text) {
  std::int32_t id = 0;
  for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1, ++id) {
    end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    require(tokenizer.token_of(id) == line, "the number of a line is the id of its token");
  }
  require(tokenizer.vocab_size() == id, "as many ids as lines");
}

void test(std::string_view bytes) {
  const std::size_t nul = bytes.find('\0');
  const std::string_view text = bytes.substr(0, nul);
  const MemoryFile vocab(text);
  std::optional<MemoryFile> config;
  if (nul != bytes.npos) config.emplace(bytes.substr(nul + 1));
  try {
    const Tokenizer tokenizer(read_vocab_txt(vocab.path(), config ? config->path() : "/nonexistent"));
    check_lines(tokenizer, text);
    check_tokenizer(tokenizer);
  } catch (const FormatError& error) {
    const bool is_vocab = error.path() == vocab.path();
    require(is_vocab || config, "a refusal names one of the files");
    check_refusal(error, is_vocab ? vocab.path() : config->path(), bytes.size());
  }
}

}  // namespace
}  // namespace qkv::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  qkv::fuzz::test(qkv::fuzz::to_text(data, size));
  return 0;
}
