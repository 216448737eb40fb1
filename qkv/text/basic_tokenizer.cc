#include "qkv/text/basic_tokenizer.h"

#include <algorithm>
#include <utility>

#include "qkv/text/unicode.h"

namespace qkv {
namespace {

AlignedText clean(AlignedText text) {
  std::erase_if(text, [](const AlignedChar& c) { return is_removed_by_cleaning(c.code_point); });
  for (AlignedChar& c : text) {
    if (is_white_space(c.code_point)) c.code_point = U' ';
  }
  return text;
}

AlignedText space_ideographs(const AlignedText& text) {
  AlignedText spaced;
  spaced.reserve(text.size());
  for (const AlignedChar& c : text) {
    const bool is_ideograph = is_cjk_ideograph(c.code_point);
    if (is_ideograph) spaced.push_back({U' ', c.source});
    spaced.push_back(c);
    if (is_ideograph) spaced.push_back({U' ', c.source});
  }
  return spaced;
}

// One character of a decomposition under way. Only the first one of each decomposed character stands for a character of
// the text; the others were inserted.
struct DecomposedChar {
  char32_t code_point;
  int combining_class;
  bool is_inserted;
};

std::vector<DecomposedChar> decompose_all(const AlignedText& text) {
  std::vector<DecomposedChar> characters;
  characters.reserve(text.size());
  for (const AlignedChar& c : text) {
    bool is_inserted = false;
    for (const char32_t part : decompose(c.code_point)) {
      characters.push_back({part, combining_class(part), is_inserted});
      is_inserted = true;
    }
  }
  return characters;
}

// Canonical order: each run of marks is sorted by class; marks of one class keep their order.
void order_marks(std::vector<DecomposedChar>& characters) {
  const auto is_starter = [](const DecomposedChar& c) { return c.combining_class == 0; };
  for (auto begin = characters.begin(); begin != characters.end();) {
    begin = std::find_if_not(begin, characters.end(), is_starter);
    const auto end = std::find_if(begin, characters.end(), is_starter);
    std::stable_sort(begin, end, [](const auto& a, const auto& b) { return a.combining_class < b.combining_class; });
    begin = end;
  }
}

// `tokenizers` gives out the sources by position, after the marks were put in order: the n-th character that was not
// inserted gets the n-th source, an inserted one the source given out last. Followed here, so that offsets agree.
AlignedText decompose_aligned(const AlignedText& text) {
  std::vector<DecomposedChar> characters = decompose_all(text);
  order_marks(characters);
  AlignedText decomposed;
  decomposed.reserve(characters.size());
  std::size_t num_used = 0;
  for (const DecomposedChar& c : characters) {
    if (!c.is_inserted) ++num_used;
    decomposed.push_back({c.code_point, text[num_used - 1].source});
  }
  return decomposed;
}

AlignedText lower_case(const AlignedText& text) {
  AlignedText lowered;
  lowered.reserve(text.size());
  for (const AlignedChar& c : text) {
    for (const char32_t part : to_lower(c.code_point)) lowered.push_back({part, c.source});
  }
  return lowered;
}

}  // namespace

AlignedText normalize(const BertNormalizer& normalizer, AlignedText text) {
  if (normalizer.clean_text) text = clean(std::move(text));
  if (normalizer.handle_chinese_chars) text = space_ideographs(text);
  if (normalizer.strip_accents.value_or(normalizer.lowercase)) {
    text = decompose_aligned(text);
    std::erase_if(text, [](const AlignedChar& c) { return is_nonspacing_mark(c.code_point); });
  }
  if (normalizer.lowercase) text = lower_case(text);
  return text;
}

std::vector<std::span<const AlignedChar>> split_words(std::span<const AlignedChar> text) {
  std::vector<std::span<const AlignedChar>> words;
  std::size_t begin = 0;
  const auto end_word = [&](std::size_t end) {
    if (end > begin) words.push_back(text.subspan(begin, end - begin));
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_punctuation = is_bert_punctuation(text[i].code_point);
    if (!is_punctuation && !is_white_space(text[i].code_point)) continue;
    end_word(i);
    begin = i;
    if (is_punctuation) end_word(i + 1);
    begin = i + 1;
  }
  end_word(text.size());
  return words;
}

}  // namespace qkv
