#pragma once

#include <string>

#pragma GCC visibility push(hidden)  // not for users: neither installed nor exported
namespace qkv {

// What BERT's tokeniser asks about a character. The data are utf8proc's, cut to what the package `tokenizers` knows,
// so that ids agree for every code point U+0000..U+10FFFF (tests/parity/test_tokenizer_parity.py tries all of them).
// Checked with utf8proc 2.8.0 (Unicode 15.0) and tokenizers 0.22.2 and 0.23.3, which mix three versions of Unicode:
//   categories               8.0  younger marks, punctuation and format characters have none: they stay in the text.
//                                 Three older ones have changed since: U+1734 is still Mn there (now Mc), U+166D
//                                 still Po (now So), U+111C9 still Po (now Mn).
//   canonical decomposition  9.0  younger characters neither decompose nor change places
//   lower-casing            17.0  55 capital letters younger than 15.0 are lower-cased too
// Unassigned code points and surrogates have no property here.

/// Removed by BERT's cleaning: control, format and private-use characters, U+0000 and U+FFFD, but not tab, line feed,
/// CR.
bool is_removed_by_cleaning(char32_t code_point);

/// Unicode White_Space: 25 characters, among them U+00A0, U+2028 and U+3000.
bool is_white_space(char32_t code_point);

/// An ideograph that BERT makes a word of its own: CJK Unified Ideographs, extensions A to D, E from U+2B920 on, and
/// the compatibility ideographs. Kana and Hangul are not among them.
bool is_cjk_ideograph(char32_t code_point);

/// Punctuation to BERT: every ASCII symbol that is no letter, digit or blank ($ + < = > ^ ` | ~ too), and Unicode P*.
bool is_bert_punctuation(char32_t code_point);

/// A nonspacing mark (Mn), what "strip accents" removes after decomposition.
bool is_nonspacing_mark(char32_t code_point);

/// What \w means in a Unicode regular expression: letters, marks, decimal digits, letter numbers, connectors, joiners.
/// Edge: letters younger than utf8proc's data are not counted; only added tokens with single_word ask for it.
bool is_word_character(char32_t code_point);

/// Lower case by the full mapping, without context: one character, except U+0130, which becomes i U+0307.
std::u32string to_lower(char32_t code_point);

/// Full canonical decomposition of one character: itself where it has none.
std::u32string decompose(char32_t code_point);

/// Canonical combining class: 0 for a starter, else the order of a mark among marks.
int combining_class(char32_t code_point);

}  // namespace qkv
#pragma GCC visibility pop
