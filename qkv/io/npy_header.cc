#include "qkv/io/npy_header.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include "qkv/core/error.h"
#include "qkv/core/in_quotes.h"
#include "qkv/core/tensor_values.h"
#include "qkv/io/convert.h"

namespace qkv {

namespace {

using namespace std::string_view_literals;

constexpr auto kMagic = "\x93NUMPY"sv;
constexpr std::size_t kVersionEnd = 8;  // magic, major, minor

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// "<f4" and so on, or nothing for what is not plain numbers.
std::optional<NpyDtype> parse_descr(std::string_view descr) {
  if (descr.size() != 3 || !is_digit(descr[2])) return std::nullopt;
  NpyDtype dtype;
  dtype.bytes = descr[2] - '0';
  if ("1248"sv.find(descr[2]) == std::string_view::npos) return std::nullopt;
  switch (descr[0]) {
    case '<':
      dtype.order = std::endian::little;
      break;
    case '>':
      dtype.order = std::endian::big;
      break;
    case '|':  // "has no order"
      if (dtype.bytes != 1) return std::nullopt;
      break;
    default:
      return std::nullopt;
  }
  switch (descr[1]) {
    case 'b':
      dtype.kind = NpyDtype::Kind::kBool;
      return dtype.bytes == 1 ? std::optional(dtype) : std::nullopt;
    case 'f':
      dtype.kind = NpyDtype::Kind::kFloat;
      return dtype.bytes >= 2 ? std::optional(dtype) : std::nullopt;
    case 'i':
      dtype.kind = NpyDtype::Kind::kSigned;
      return dtype;
    case 'u':
      dtype.kind = NpyDtype::Kind::kUnsigned;
      return dtype;
    default:
      return std::nullopt;
  }
}

// Reads the header's text, a literal of a Python dict: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class DictParser {
 public:
  DictParser(const std::string& path, std::string_view text, std::size_t text_begin)
      : path_(path), text_(text), text_begin_(text_begin) {}

  NpyHeader parse() {
    expect('{');
    while (!accept('}')) {
      parse_entry();
      if (accept(',')) continue;
      expect('}');
      break;
    }
    skip_space();
    if (at_ != text_.size()) fail(rest(), "nothing but spaces after the dict");
    if (!has_descr_ || !has_order_ || !has_shape_) {
      fail("a dict without " + std::string(!has_descr_   ? "descr"
                                           : !has_order_ ? "fortran_order"
                                                         : "shape"),
           "descr, fortran_order and shape");
    }
    return std::move(header_);
  }

 private:
  void parse_entry() {
    const std::size_t begin = at_;
    const std::string key = parse_string();
    bool* seen = key == "descr"           ? &has_descr_
                 : key == "fortran_order" ? &has_order_
                 : key == "shape"         ? &has_shape_
                                          : nullptr;
    if (!seen || *seen) {
      at_ = begin;
      fail((seen ? "twice the key " : "the key ") + in_quotes(key), "descr, fortran_order and shape, once each");
    }
    *seen = true;
    expect(':');
    if (seen == &has_descr_) {
      parse_dtype();
    } else if (seen == &has_order_) {
      parse_order();
    } else {
      parse_shape();
    }
  }

  void parse_dtype() {
    const auto kExpected = "dtype b1, i1 i2 i4 i8, u1 u2 u4 u8, f2 f4 or f8";
    skip_space();
    const std::size_t begin = at_;
    if (next() == '[') {
      fail("the structured dtype " + in_quotes(text_.substr(at_, text_.rfind(']') + 1 - at_)), kExpected);
    }
    header_.descr = parse_string();
    const auto dtype = parse_descr(header_.descr);
    if (!dtype) {
      at_ = begin;
      fail("descr " + in_quotes(header_.descr), kExpected);
    }
    header_.dtype = *dtype;
  }

  void parse_order() {
    skip_space();
    for (const bool value : {false, true}) {
      const auto word = value ? "True"sv : "False"sv;
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      header_.fortran_order = value;
      return;
    }
    fail("fortran_order " + rest(), "True or False");
  }

  void parse_shape() {
    expect('(');
    bool has_comma = true;  // before the closing bracket; () needs none, and (3) is a number, not a tuple
    while (!accept(')')) {
      if (!has_comma) fail("shape " + rest(), "a tuple");
      if (header_.shape.size() == kMaxRank) fail("more axes", "at most " + std::to_string(kMaxRank));
      header_.shape.push_back(parse_length());
      has_comma = accept(',');
      if (has_comma || header_.shape.size() == 1) continue;
      expect(')');
      break;
    }
    if (header_.shape.size() == 1 && !has_comma) fail("shape of a number", "a tuple");
  }

  Index parse_length() {
    skip_space();
    Index value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    const bool has_leading_zero = next() == '0' && end - begin > 1;
    if (error != std::errc() || !is_digit(next()) || has_leading_zero) {
      fail("length " + rest(), "a whole number from 0 to 2^63 - 1");
    }
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }

  std::string parse_string() {
    skip_space();
    const char quote = next();
    if (quote != '\'' && quote != '"') fail(rest(), "a string");
    const auto end = text_.find(quote, at_ + 1);
    const auto content = text_.substr(at_ + 1, end == std::string_view::npos ? end : end - at_ - 1);
    if (end == std::string_view::npos || content.find_first_of("\\\n\r") != std::string_view::npos) {
      fail(rest(), "a string on one line, without escapes");
    }
    at_ = end + 1;
    return std::string(content);
  }

  // The byte that comes next; 0, which stands nowhere in a header, at the end.
  char next() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_space() { at_ = std::min(text_.find_first_not_of(" \t\n\r\f", at_), text_.size()); }
  bool accept(char c) {
    skip_space();
    if (next() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(rest(), std::string(1, c));
  }

  std::string rest() const { return at_ == text_.size() ? "the end" : in_quotes(text_.substr(at_)); }
  [[noreturn]] void fail(const std::string& got, const std::string& expected) const {
    throw FormatError(path_, text_begin_ + at_, "header: got " + got + ", expected " + expected);
  }

  const std::string& path_;
  std::string_view text_;
  std::size_t text_begin_;  // in the file
  std::size_t at_ = 0;      // in the text
  bool has_descr_ = false, has_order_ = false, has_shape_ = false;
  NpyHeader header_;
};

// Where the header's text lies.
std::string_view find_text(const std::string& path, std::span<const std::byte> file) {
  const std::string_view all(reinterpret_cast<const char*>(file.data()), file.size());
  if (!all.starts_with(kMagic)) {
    throw FormatError(path, 0, "got " + in_quotes(all.substr(0, kMagic.size())) + ", expected the magic bytes of .npy");
  }
  const std::string_view version = all.substr(kMagic.size(), 2);
  if (version != "\1\0"sv && version != "\2\0"sv && version != "\3\0"sv) {
    throw FormatError(path, kMagic.size(), "version: got " + in_quotes(version) + ", expected 1.0, 2.0 or 3.0");
  }
  const std::size_t length_bytes = version[0] == 1 ? 2 : 4;
  const std::size_t begin = kVersionEnd + length_bytes;
  if (file.size() < begin) {
    throw FormatError(path, file.size(), "got the end of the file, expected the length of the header");
  }
  const std::size_t length = length_bytes == 2 ? load_number<std::uint16_t>(&file[kVersionEnd], std::endian::little)
                                               : load_number<std::uint32_t>(&file[kVersionEnd], std::endian::little);
  if (length > file.size() - begin) {
    throw FormatError(path, kVersionEnd,
                      "header length: got " + std::to_string(length) + ", expected at most " +
                          std::to_string(file.size() - begin) + ", the rest of the file");
  }
  return all.substr(begin, length);
}

}  // namespace

NpyHeader parse_npy_header(const std::string& path, std::span<const std::byte> file) {
  const std::string_view text = find_text(path, file);
  const std::size_t begin = static_cast<std::size_t>(text.data() - reinterpret_cast<const char*>(file.data()));
  NpyHeader header = DictParser(path, text, begin).parse();
  header.data_begin = static_cast<Index>(begin + text.size());

  const auto count = checked_num_elements(header.shape);
  const auto bytes = count ? checked_multiply(*count, header.dtype.bytes) : std::nullopt;
  if (!bytes) {
    throw FormatError(path, begin, "shape: got " + to_string(header.shape) + ", expected a size in bytes below 2^63");
  }
  const Index available = static_cast<Index>(file.size()) - header.data_begin;
  if (*bytes != available) {
    throw FormatError(path, static_cast<std::uint64_t>(header.data_begin + std::min(*bytes, available)),
                      "values: got " + std::to_string(available) + " bytes, expected " + std::to_string(*bytes) +
                          " for " + in_quotes(header.descr) + " " + to_string(header.shape));
  }
  return header;
}

}  // namespace qkv
