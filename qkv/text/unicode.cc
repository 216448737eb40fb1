#include "qkv/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

namespace qkv {
namespace {

struct CodeRange {
  char32_t first;
  char32_t last;
};

// Code points assigned after Unicode 8.0 that would count as mark, punctuation or format character (up to Unicode 17).
// Ranges also run over older neighbours for which no function below makes a difference (letters, digits, symbols, Mc).
constexpr CodeRange kNewerThanUnicode8[] = {
    {0x061D, 0x061D},   {0x07FD, 0x07FD},   {0x0890, 0x08E2},   {0x09FD, 0x09FE},   {0x0A76, 0x0A76},
    {0x0AFA, 0x0AFF},   {0x0B55, 0x0B55},   {0x0C04, 0x0C3C},   {0x0C77, 0x0C77},   {0x0C84, 0x0C84},
    {0x0D00, 0x0D00},   {0x0D3B, 0x0D3C},   {0x0D81, 0x0D81},   {0x0EBA, 0x0EBA},   {0x0ECE, 0x0ECE},
    {0x1715, 0x1715},   {0x180F, 0x1886},   {0x1ABF, 0x1AFF},   {0x1B4E, 0x1B4F},   {0x1B7D, 0x1B7F},
    {0x1DF6, 0x1DFB},   {0x2E43, 0x2E7F},   {0xA82C, 0xA82C},   {0xA8C5, 0xA8C5},   {0xA8FF, 0xA8FF},
    {0xA9BD, 0xA9BD},   {0x105C0, 0x105FF}, {0x10D24, 0x10F89}, {0x11070, 0x11074}, {0x110C2, 0x110CD},
    {0x111CF, 0x111CF}, {0x1123E, 0x11241}, {0x1133B, 0x1133B}, {0x11380, 0x1145E}, {0x11660, 0x1166C},
    {0x116B9, 0x116B9}, {0x116D0, 0x116E3}, {0x1182F, 0x11FFF}, {0x12FF1, 0x13455}, {0x16100, 0x16139},
    {0x16D40, 0x16F4F}, {0x16FE2, 0x16FF1}, {0x1CF00, 0x1CF46}, {0x1E000, 0x1E6FF}, {0x1E944, 0x1E95F},
};

// The marks among them that came with Unicode 9.0: no category to `tokenizers`, but its decomposition knows their
// class.
constexpr CodeRange kMarksOfUnicode9[] = {
    {0x08D4, 0x08E1},   {0x1DFB, 0x1DFB},   {0x11442, 0x11442}, {0x11446, 0x11446},
    {0x11C3F, 0x11C3F}, {0x1E000, 0x1E02A}, {0x1E944, 0x1E94A},
};

// Capitals of Unicode 16 and 17, and where their small letters lie. Harmless where utf8proc knows them already.
struct LowerRange {
  CodeRange capitals;
  int distance;
};
constexpr LowerRange kNewerCapitals[] = {
    {{0x1C89, 0x1C89}, 1},      {{0xA7CB, 0xA7CB}, 0x264 - 0xA7CB},
    {{0xA7CC, 0xA7CC}, 1},      {{0xA7CE, 0xA7CE}, 1},
    {{0xA7D2, 0xA7D2}, 1},      {{0xA7D4, 0xA7D4}, 1},
    {{0xA7DA, 0xA7DA}, 1},      {{0xA7DC, 0xA7DC}, 0x19B - 0xA7DC},
    {{0x10D50, 0x10D65}, 0x20}, {{0x16EA0, 0x16EB8}, 27},
};

constexpr char32_t kCapitalIWithDot = 0x130;

bool is_in(std::span<const CodeRange> sorted, char32_t code_point) {
  const auto after = std::upper_bound(sorted.begin(), sorted.end(), code_point,
                                      [](char32_t value, const CodeRange& range) { return value < range.first; });
  return after != sorted.begin() && code_point <= std::prev(after)->last;
}

bool is_newer_than_unicode9(char32_t code_point) {
  return is_in(kNewerThanUnicode8, code_point) && !is_in(kMarksOfUnicode9, code_point);
}

utf8proc_category_t category(char32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

bool is_ascii_symbol(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

}  // namespace

bool is_removed_by_cleaning(char32_t code_point) {
  if (code_point == '\t' || code_point == '\n' || code_point == '\r') return false;
  if (code_point == 0xFFFD) return true;
  switch (category(code_point)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CO:
      return true;
    case UTF8PROC_CATEGORY_CF:
      return !is_in(kNewerThanUnicode8, code_point);
    default:
      return false;
  }
}

bool is_white_space(char32_t code_point) {
  if ((code_point >= '\t' && code_point <= '\r') || code_point == 0x85) return true;
  switch (category(code_point)) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return true;
    default:
      return false;
  }
}

bool is_cjk_ideograph(char32_t code_point) {
  // Extension E begins at U+2B820, yet `tokenizers` has U+2B920 (and BERT's own code U+2B820): what models are run with
  // counts.
  constexpr CodeRange kIdeographs[] = {
      {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},   {0x20000, 0x2A6DF},
      {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F},
  };
  return is_in(kIdeographs, code_point);
}

bool is_bert_punctuation(char32_t code_point) {
  if (code_point < 0x80) return is_ascii_symbol(code_point);
  switch (category(code_point)) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return !is_in(kNewerThanUnicode8, code_point);
    default:
      return code_point == 0x166D || code_point == 0x111C9;  // Po in Unicode 8.0, later So and Mn
  }
}

bool is_nonspacing_mark(char32_t code_point) {
  if (code_point == 0x1734) return true;    // Mn in Unicode 8.0, later Mc
  if (code_point == 0x111C9) return false;  // Po in Unicode 8.0, later Mn
  return category(code_point) == UTF8PROC_CATEGORY_MN && !is_in(kNewerThanUnicode8, code_point);
}

bool is_word_character(char32_t code_point) {
  switch (category(code_point)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      break;
  }
  // The two joiners, and the circled and squared letters, which are symbols with the property Alphabetic.
  constexpr CodeRange kOthers[] = {
      {0x200C, 0x200D}, {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189},
  };
  return is_in(kOthers, code_point);
}

std::u32string to_lower(char32_t code_point) {
  if (code_point == kCapitalIWithDot) return {U'i', char32_t{0x307}};
  for (const auto& [capitals, distance] : kNewerCapitals) {
    if (code_point >= capitals.first && code_point <= capitals.last) {
      return {static_cast<char32_t>(static_cast<int>(code_point) + distance)};
    }
  }
  return {static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point)))};
}

std::u32string decompose(char32_t code_point) {
  constexpr std::size_t kMaxDecomposition = 4;  // the longest canonical one, by Unicode's stability policy
  std::array<utf8proc_int32_t, kMaxDecomposition> buffer{};
  int boundary_class = 0;
  if (is_newer_than_unicode9(code_point)) return {code_point};
  const auto length = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point), buffer.data(), buffer.size(),
                                              UTF8PROC_DECOMPOSE, &boundary_class);
  if (length <= 0 || length > static_cast<utf8proc_ssize_t>(buffer.size())) return {code_point};
  return {buffer.begin(), buffer.begin() + length};
}

int combining_class(char32_t code_point) {
  if (is_newer_than_unicode9(code_point)) return 0;
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point))->combining_class;
}

}  // namespace qkv
