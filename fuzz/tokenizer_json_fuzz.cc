// A tokenizer.json: refused in the documented way, or it makes a tokenizer that works.

#include "fuzz/encoding_checks.h"
#include "fuzz/fuzz_support.h"
#include "fuzz/json_checks.h"
#include "qkv/text/tokenizer_json.h"

namespace qkv::fuzz {
namespace {

void test(std::string_view text) {
  check_json(text);
  try {
    check_tokenizer(Tokenizer(parse_tokenizer_json(text, "tokenizer.json")));
  } catch (const FormatError& error) {
    check_refusal(error, "tokenizer.json", text.size());
  }
}

}  // namespace
}  // namespace qkv::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  qkv::fuzz::test(qkv::fuzz::to_text(data, size));
  return 0;
}
