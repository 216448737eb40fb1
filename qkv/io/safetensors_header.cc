#include "qkv/io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/in_quotes.h"
#include "qkv/core/tensor_values.h"
#include "qkv/io/tracked_byte.h"

namespace qkv {

namespace {

constexpr Index kLengthBytes = 8;  // the header's length, little-endian

struct Dtype {
  std::string_view name;
  Index bits;
  std::optional<FloatFormat> float_format = std::nullopt;
  std::optional<IntegerFormat::Kind> integer_kind = std::nullopt;
};

constexpr Dtype float_dtype(std::string_view name, Index bits, FloatFormat format) {
  return {.name = name, .bits = bits, .float_format = format};
}

constexpr Dtype integer_dtype(std::string_view name, Index bits, IntegerFormat::Kind kind) {
  return {.name = name, .bits = bits, .integer_kind = kind};
}

// A dtype that can be listed and whose bytes can be had, but not converted.
constexpr Dtype other_dtype(std::string_view name, Index bits) {
  return {.name = name, .bits = bits};
}

constexpr std::array kDtypes = {
    integer_dtype("BOOL", 8, IntegerFormat::Kind::kBool),
    other_dtype("F4", 4),
    other_dtype("F6_E2M3", 6),
    other_dtype("F6_E3M2", 6),
    integer_dtype("U8", 8, IntegerFormat::Kind::kUnsigned),
    integer_dtype("I8", 8, IntegerFormat::Kind::kSigned),
    other_dtype("F8_E5M2", 8),
    other_dtype("F8_E4M3", 8),
    other_dtype("F8_E8M0", 8),
    other_dtype("F8_E4M3FNUZ", 8),
    other_dtype("F8_E5M2FNUZ", 8),
    integer_dtype("I16", 16, IntegerFormat::Kind::kSigned),
    integer_dtype("U16", 16, IntegerFormat::Kind::kUnsigned),
    float_dtype("F16", 16, FloatFormat::kF16),
    float_dtype("BF16", 16, FloatFormat::kBf16),
    integer_dtype("I32", 32, IntegerFormat::Kind::kSigned),
    integer_dtype("U32", 32, IntegerFormat::Kind::kUnsigned),
    float_dtype("F32", 32, FloatFormat::kF32),
    other_dtype("C64", 64),
    integer_dtype("I64", 64, IntegerFormat::Kind::kSigned),
    integer_dtype("U64", 64, IntegerFormat::Kind::kUnsigned),
    float_dtype("F64", 64, FloatFormat::kF64),
};

const Dtype* find_dtype(std::string_view name) {
  const auto* found = std::ranges::find(kDtypes, name, &Dtype::name);
  return found == kDtypes.end() ? nullptr : found;
}

// Receives the parser's events and builds the header. Every event that the format has no place for is an error, so
// the depth of the JSON never passes three: header, entry, shape.
class HeaderBuilder {
 public:
  HeaderBuilder(const std::string& path, std::string_view text, Index data_begin, Index file_size)
      : path_(path), text_(text), furthest_(text.data()), data_begin_(data_begin), data_size_(file_size - data_begin) {}

  SafetensorsHeader build() {
    const char* begin = text_.data();
    const char* end = begin + text_.size();
    nlohmann::json::sax_parse(TrackedByte{begin, &furthest_}, TrackedByte{end, &furthest_}, this);
    check_cover();
    return std::move(header_);
  }

  // The events, by the names that nlohmann::json::sax_parse calls. What is wrong is thrown, so all return true.
  bool null() { return unexpected("null"); }
  bool boolean(bool) { return unexpected("a boolean"); }
  bool number_integer(std::int64_t) { return unexpected("a number with a minus sign"); }
  bool number_float(double, const std::string& digits) { return unexpected("the number " + in_quotes(digits)); }
  bool binary(nlohmann::json::binary_t&) { return unexpected("binary data"); }

  bool number_unsigned(std::uint64_t value) {
    if (place_ != Place::kShape && place_ != Place::kOffsets) return unexpected("a number");
    if (value > std::numeric_limits<Index>::max())
      fail(in_entry() + "got " + std::to_string(value) + ", expected < 2^63");
    const std::size_t limit = place_ == Place::kShape ? kMaxRank : 2;
    std::vector<Index>& list = place_ == Place::kShape ? info_.shape : offsets_;
    if (list.size() == limit) {
      fail(in_entry() + field_ + ": got more numbers, expected at most " + std::to_string(limit));
    }
    list.push_back(static_cast<Index>(value));
    return true;
  }

  bool string(std::string& text) {
    if (place_ == Place::kMetadata) {
      header_.metadata[field_] = std::move(text);
    } else if (place_ == Place::kEntry && field_ == "dtype") {
      dtype_ = find_dtype(text);
      if (!dtype_) fail(in_entry() + "unknown dtype: got " + in_quotes(text) + ", expected one of " + all_dtypes());
      info_.dtype = std::move(text);
    } else {
      unexpected("a string");
    }
    return true;
  }

  bool start_object(std::size_t) {
    switch (place_) {
      case Place::kStart:
        place_ = Place::kHeader;
        return true;
      case Place::kHeader:
        place_ = info_.name == kSafetensorsMetadata ? Place::kMetadata : Place::kEntry;
        fields_.clear();
        return true;
      default:
        return unexpected("an object");
    }
  }

  bool key(std::string& name) {
    if (place_ == Place::kHeader) {
      if (!names_.insert(name).second) fail("duplicate name: got " + in_quotes(name) + " twice, expected once");
      info_ = {.name = std::move(name), .dtype = {}, .shape = {}};
      offsets_.clear();
      return true;
    }
    const bool known = name == "dtype" || name == "shape" || name == "data_offsets";
    if (place_ == Place::kEntry && !known) {
      fail(in_entry() + "unknown field: got " + in_quotes(name) + ", expected dtype, shape or data_offsets");
    }
    if (!fields_.insert(name).second)
      fail(in_entry() + "duplicate field: got " + in_quotes(name) + " twice, expected once");
    field_ = std::move(name);
    return true;
  }

  bool end_object() {
    if (place_ == Place::kEntry) finish_entry();
    place_ = place_ == Place::kHeader ? Place::kEnd : Place::kHeader;
    return true;
  }

  bool start_array(std::size_t) {
    if (place_ != Place::kEntry || field_ == "dtype") return unexpected("an array");
    place_ = field_ == "shape" ? Place::kShape : Place::kOffsets;
    return true;
  }

  bool end_array() {
    place_ = Place::kEntry;
    return true;
  }

  bool parse_error(std::size_t, const std::string& last_token, const nlohmann::json::exception&) {
    fail("header: got " + in_quotes(last_token) + ", expected JSON in UTF-8");
  }

 private:
  enum class Place { kStart, kHeader, kMetadata, kEntry, kShape, kOffsets, kEnd };

  struct Position {
    Index begin, end;  // of the data, counted from its start
    std::size_t tensor;
    std::uint64_t byte;  // where the header says so
  };

  std::uint64_t byte() const { return kLengthBytes + static_cast<std::uint64_t>(furthest_ - text_.data()); }
  [[noreturn]] void fail(const std::string& problem) const { throw FormatError(path_, byte(), problem); }
  std::string in_entry() const { return in_quotes(info_.name) + ": "; }

  // Says what stands where something else belongs.
  [[noreturn]] bool unexpected(const std::string& got) const {
    switch (place_) {
      case Place::kStart:
      case Place::kEnd:
        fail("header: got " + got + ", expected an object");
      case Place::kHeader:
        fail(in_entry() + "got " + got + ", expected an object");
      case Place::kMetadata:
        fail(in_entry() + in_quotes(field_) + ": got " + got + ", expected a string");
      case Place::kEntry:
        fail(in_entry() + field_ + ": got " + got + ", expected " + (field_ == "dtype" ? "a string" : "an array"));
      default:
        fail(in_entry() + field_ + ": got " + got +
             ", expected a whole number >= 0, written without fraction or exponent");
    }
  }

  static std::string all_dtypes() {
    std::string list;
    for (const Dtype& dtype : kDtypes) list.append(list.empty() ? "" : " ").append(dtype.name);
    return list;
  }

  void finish_entry() {
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (!fields_.contains(field)) fail(in_entry() + "got no " + field + ", expected dtype, shape and data_offsets");
    }
    if (offsets_.size() != 2) {
      fail(in_entry() + "data_offsets: got " + std::to_string(offsets_.size()) + " numbers, expected 2");
    }
    const Index begin = offsets_[0], end = offsets_[1];
    if (begin > end || end > data_size_) {
      fail(in_entry() + "data_offsets: got " + to_string(offsets_) +
           ", expected begin <= end <= " + std::to_string(data_size_) + ", the bytes of data in the file");
    }
    const auto count = checked_num_elements(info_.shape);
    const auto bits = count ? checked_multiply(*count, dtype_->bits) : std::nullopt;
    if (!bits) fail(in_entry() + "shape: got " + to_string(info_.shape) + ", expected a size in bits below 2^63");
    if (*bits % 8 != 0 || *bits / 8 != end - begin) {
      fail(in_entry() + "data_offsets: got " + std::to_string(end - begin) + " bytes, expected " +
           std::to_string(*bits) + " / 8 for " + info_.dtype + " " + to_string(info_.shape));
    }
    info_.begin = data_begin_ + begin;
    info_.end = data_begin_ + end;
    positions_.push_back({begin, end, header_.tensors.size(), byte()});
    header_.tensors.push_back(std::move(info_));
  }

  // The tensors, put in the order of their data, must cover it without overlap, hole or rest.
  void check_cover() {
    std::ranges::stable_sort(positions_, {}, [](const Position& p) { return std::pair(p.begin, p.end); });
    std::vector<SafetensorsInfo> sorted;
    sorted.reserve(positions_.size());
    Index covered = 0;
    for (const Position& position : positions_) {
      SafetensorsInfo& tensor = header_.tensors[position.tensor];
      if (position.begin != covered) {
        throw FormatError(path_, position.byte,
                          in_quotes(tensor.name) + ": data_offsets leave a hole or overlap: got begin " +
                              std::to_string(position.begin) + ", expected " + std::to_string(covered));
      }
      covered = position.end;
      sorted.push_back(std::move(tensor));
    }
    header_.tensors = std::move(sorted);
    if (covered == data_size_) return;
    throw FormatError(path_, static_cast<std::uint64_t>(data_begin_ + covered),
                      "bytes that belong to no tensor: got " + std::to_string(data_size_ - covered) + ", expected 0");
  }

  const std::string& path_;
  std::string_view text_;
  const char* furthest_;  // one past the last byte that the parser took
  Index data_begin_, data_size_;

  Place place_ = Place::kStart;
  std::set<std::string> names_;   // of the header
  std::set<std::string> fields_;  // of the entry, or of __metadata__
  std::string field_;             // the last of them
  SafetensorsInfo info_;          // the entry being read
  const Dtype* dtype_ = nullptr;
  std::vector<Index> offsets_;

  std::vector<Position> positions_;
  SafetensorsHeader header_;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(const std::string& path, std::span<const std::byte> file) {
  const Index file_size = static_cast<Index>(file.size());
  if (file_size < kLengthBytes) {
    throw FormatError(path, file.size(), "got a file of " + std::to_string(file_size) + " bytes, expected at least 8");
  }
  const auto length = load_number<std::uint64_t>(file.data(), std::endian::little);
  const auto available = std::min(kMaxSafetensorsHeader, static_cast<std::uint64_t>(file_size - kLengthBytes));
  if (length > available) {
    throw FormatError(
        path, 0,
        "header length: got " + std::to_string(length) + ", expected at most " + std::to_string(available) +
            (available == kMaxSafetensorsHeader ? ", the limit of the format" : ", the rest of the file"));
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  if (!text.starts_with('{')) {
    throw FormatError(path, kLengthBytes, "header: got " + in_quotes(text.substr(0, 1)) + ", expected {");
  }
  // The JSON parser takes a NUL byte for the end of its input.
  if (const auto nul = text.find('\0'); nul != std::string_view::npos) {
    throw FormatError(path, kLengthBytes + nul, "header: got a NUL byte, expected JSON in UTF-8");
  }
  return HeaderBuilder(path, text, kLengthBytes + static_cast<Index>(length), file_size).build();
}

std::optional<FloatFormat> safetensors_float_format(std::string_view dtype) {
  const Dtype* found = find_dtype(dtype);
  return found ? found->float_format : std::nullopt;
}

std::optional<IntegerFormat> safetensors_integer_format(std::string_view dtype) {
  const Dtype* found = find_dtype(dtype);
  if (!found || !found->integer_kind) return std::nullopt;
  return IntegerFormat{*found->integer_kind, found->bits / 8};
}

}  // namespace qkv
