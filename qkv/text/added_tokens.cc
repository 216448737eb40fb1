#include "qkv/text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "qkv/text/unicode.h"

namespace qkv {
namespace {

std::size_t begin_of_spaces(std::span<const AlignedChar> text, std::size_t end) {
  while (end > 0 && is_white_space(text[end - 1].code_point)) --end;
  return end;
}

std::size_t end_of_spaces(std::span<const AlignedChar> text, std::size_t begin) {
  while (begin < text.size() && is_white_space(text[begin].code_point)) ++begin;
  return begin;
}

bool is_word(const AlignedChar& c) {
  return is_word_character(c.code_point);
}

bool stands_alone(std::span<const AlignedChar> text, std::size_t begin, std::size_t end) {
  return (begin == 0 || !is_word(text[begin - 1])) && (end == text.size() || !is_word(text[end]));
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::span<const AddedToken> tokens, const BertNormalizer& normalizer,
                                   bool normalized) {
  for (const AddedToken& token : tokens) {
    if (token.normalized != normalized) continue;
    AlignedText content = decode_utf8(token.content, "AddedTokenFinder");
    if (normalized) content = normalize(normalizer, std::move(content));
    if (content.empty()) continue;
    Pattern pattern{{}, token};
    for (const AlignedChar& c : content) pattern.content.push_back(c.code_point);
    by_first_[pattern.content.front()].push_back(std::move(pattern));
  }
  for (auto& [first, patterns] : by_first_) {
    std::stable_sort(patterns.begin(), patterns.end(),
                     [](const Pattern& a, const Pattern& b) { return a.content.size() > b.content.size(); });
  }
}

const AddedTokenFinder::Pattern* AddedTokenFinder::pattern_at(std::span<const AlignedChar> text) const {
  const auto found = by_first_.find(text.front().code_point);
  if (found == by_first_.end()) return nullptr;
  for (const Pattern& pattern : found->second) {
    const auto& content = pattern.content;
    if (content.size() > text.size()) continue;
    const auto same = [](char32_t a, const AlignedChar& b) { return a == b.code_point; };
    if (std::equal(content.begin(), content.end(), text.begin(), same)) return &pattern;
  }
  return nullptr;
}

std::vector<TextPart> AddedTokenFinder::split(std::span<const AlignedChar> text, bool parse_special) const {
  std::vector<TextPart> parts;
  const auto add = [&](std::size_t begin, std::size_t end, const AddedToken* added) {
    if (end > begin) parts.push_back({text.subspan(begin, end - begin), added});
  };
  std::size_t done = 0;    // end of the last part
  std::size_t search = 0;  // rstrip moves `done` ahead of the search, never the search itself
  while (search < text.size() && !by_first_.empty()) {
    const Pattern* pattern = pattern_at(text.subspan(search));
    if (pattern == nullptr) {
      ++search;
      continue;
    }
    const AddedToken& token = pattern->token;
    std::size_t begin = search;
    std::size_t end = search + pattern->content.size();
    search = end;
    if (token.special && !parse_special) continue;
    if (token.single_word && !stands_alone(text, begin, end)) continue;
    if (token.lstrip) {
      begin = std::max(done, begin_of_spaces(text, begin));
      if (begin > end) continue;  // the match lies within white space that the part before has taken
    }
    if (token.rstrip) {
      end = end_of_spaces(text, end);
    }
    add(done, begin, nullptr);
    add(begin, end, &token);
    done = end;
  }
  add(done, text.size(), nullptr);
  return parts;
}

}  // namespace qkv
