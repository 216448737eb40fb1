#include "cli/token_choice.h"

#include <charconv>
#include <limits>
#include <string_view>

#include "cli/exit_code.h"
#include "cli/suggest.h"
#include "viewer/display_text.h"

namespace qkv::cli {
namespace {

using viewer::RecordToken;
using viewer::TokenRun;

[[noreturn]] void fail(const std::string& option, const std::string& problem) {
  throw CommandError(ExitCode::kUsage, option + ": " + problem);
}

// The number of "#12"; nothing where it is no number, for "#" is a token as well.
std::optional<Index> index_of(const std::string& wanted) {
  Index index = 0;
  if (wanted.size() < 2 || wanted.front() != '#') return std::nullopt;
  const auto [end, error] = std::from_chars(wanted.data() + 1, wanted.data() + wanted.size(), index);
  if (end != wanted.data() + wanted.size() || index < 0) return std::nullopt;
  return error == std::errc() ? index : std::numeric_limits<Index>::max();
}

TokenRun run_of_index(const ChoiceText& text, const std::string& option, Index index) {
  std::vector<TokenRun> runs;
  if (text.words) {
    runs = viewer::word_runs(text.tokens);
  } else {
    for (Index i = 0; i < text.encoding.size(); ++i) runs.push_back({i, i + 1});
  }
  const auto size = static_cast<Index>(runs.size());
  if (index >= size)
    fail(option, "#" + std::to_string(index) + " is not there; the last " + (text.words ? "word" : "token") + " is #" +
                     std::to_string(size - 1));
  return runs[index];
}

std::string_view source_of(std::string_view text, ByteRange bytes) {
  return text.substr(static_cast<std::size_t>(bytes.begin), static_cast<std::size_t>(bytes.end - bytes.begin));
}

// Unknown words share a token, so their letters have to be the same too.
bool is_same_token(const ChoiceText& text, Index place, const Encoding& wanted, const std::string& wanted_text,
                   Index i) {
  if (text.encoding.ids[place] != wanted.ids[i]) return false;
  if (wanted.tokens[i] != "[UNK]" || wanted.is_special[i]) return true;
  return source_of(text.text, text.encoding.offsets[place]) == source_of(wanted_text, wanted.offsets[i]);
}

// Every place where the tokens [begin, end) of `wanted` stand in the text.
std::vector<TokenRun> places_of(const ChoiceText& text, const Encoding& wanted, const std::string& wanted_text,
                                TokenRun of_wanted) {
  std::vector<TokenRun> places;
  for (Index at = 0; at + of_wanted.size() <= text.encoding.size(); ++at) {
    bool is_here = of_wanted.size() > 0;
    for (Index i = 0; is_here && i < of_wanted.size(); ++i)
      is_here = is_same_token(text, at + i, wanted, wanted_text, of_wanted.begin + i);
    if (is_here) places.push_back({at, at + of_wanted.size()});
  }
  return places;
}

bool is_whole_words(const std::vector<RecordToken>& tokens, TokenRun run) {
  const auto is_border = [&](Index at) {
    return at == 0 || at == static_cast<Index>(tokens.size()) || tokens[at].word != tokens[at - 1].word;
  };
  return is_border(run.begin) && is_border(run.end);
}

// What was put around the text goes: [CLS] and [SEP] in BERT.
TokenRun without_surroundings(const Encoding& encoding) {
  TokenRun run{0, encoding.size()};
  while (run.begin < run.end && !encoding.word_indices[run.begin]) ++run.begin;
  while (run.begin < run.end && !encoding.word_indices[run.end - 1]) --run.end;
  return run;
}

std::vector<TokenRun> places_by_name(const ChoiceText& text, const std::string& wanted) {
  std::vector<TokenRun> places;
  for (Index i = 0; i < text.encoding.size(); ++i)
    if (text.encoding.tokens[i] == wanted) places.push_back({i, i + 1});
  return places;
}

[[noreturn]] void fail_not_found(const ChoiceText& text, const std::string& option, const std::string& wanted) {
  constexpr Index kLongestList = 200;
  std::vector<std::string> words;
  std::string list;
  for (const TokenRun& run : viewer::word_runs(text.tokens)) {
    words.push_back(viewer::text_of(text.tokens, run));
    list += (list.empty() ? "" : " ") + viewer::printable(words.back());
  }
  fail(option, "\"" + viewer::cut_to_width(viewer::printable(wanted), kLongestList, "...") + "\" is not in the text" +
                   did_you_mean(wanted, words) + " (its words: " + viewer::cut_to_width(list, kLongestList, "...") +
                   ")");
}

}  // namespace

TokenChoice find_tokens(const Tokenizer& tokenizer, const ChoiceText& text, const std::string& option,
                        const std::string& wanted) {
  if (const auto index = index_of(wanted)) return {run_of_index(text, option, *index), {}};
  const Encoding encoding = blame(ExitCode::kInput, [&] { return tokenizer.encode(wanted); });
  const auto places = places_of(text, encoding, wanted, without_surroundings(encoding));
  std::vector<TokenRun> found;
  for (const TokenRun& place : places)
    if (is_whole_words(text.tokens, place)) found.push_back(place);
  if (found.empty()) found = places;
  if (found.empty()) found = places_by_name(text, wanted);
  if (found.empty()) fail_not_found(text, option, wanted);
  return {found.front(), {found.begin() + 1, found.end()}};
}

std::vector<RecordToken> record_tokens(const Encoding& encoding) {
  std::vector<RecordToken> tokens;
  for (Index i = 0; i < encoding.size(); ++i) {
    const auto& word = encoding.word_indices[i];
    const bool continues = i > 0 && word && word == encoding.word_indices[i - 1];
    const Index number = tokens.empty() ? 0 : tokens.back().word + (continues ? 0 : 1);
    tokens.push_back({.text = encoding.tokens[i], .is_special = encoding.is_special[i], .word = number, .index = i});
  }
  return tokens;
}

}  // namespace qkv::cli
