#include "qkv/io/npy.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "qkv/core/check.h"
#include "qkv/core/in_quotes.h"
#include "qkv/io/atomic_file.h"
#include "qkv/io/convert.h"

namespace qkv {

namespace {

// From Fortran order to row-major: walks the result in order, and the stored values by their strides.
template <class T>
AlignedBuffer<T> to_row_major(AlignedBuffer<T> stored, std::span<const Index> shape) {
  std::vector<Index> strides(shape.size()), at(shape.size());
  Index stride = 1;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  AlignedBuffer<T> result(stored.size());
  Index from = 0;
  for (Index to = 0; to < result.size(); ++to) {
    result.data()[to] = stored.data()[from];
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      from += strides[axis];
      if (++at[axis] < shape[axis]) break;
      from -= strides[axis] * shape[axis];
      at[axis] = 0;
    }
  }
  return result;
}

template <class T>
TensorValues<T> in_order(const NpyHeader& header, AlignedBuffer<T> stored) {
  const bool is_row_major = !header.fortran_order || header.shape.size() < 2;
  return {header.shape, is_row_major ? std::move(stored) : to_row_major(std::move(stored), header.shape)};
}

FloatFormat float_format(NpyDtype dtype) {
  return dtype.bytes == 2 ? FloatFormat::kF16 : dtype.bytes == 4 ? FloatFormat::kF32 : FloatFormat::kF64;
}

}  // namespace

NpyFile::NpyFile(const std::string& path) : file_(path), header_(parse_npy_header(path, file_.bytes())) {}

template <class T>
TensorValues<T> NpyFile::floats(const char* function) const {
  check(header_.dtype.kind == NpyDtype::Kind::kFloat, function, "dtype of " + path(), in_quotes(descr()),
        "a float dtype, f2, f4 or f8");
  // Here and below: the size was checked against the file when the header was read.
  AlignedBuffer<T> stored(*checked_num_elements(shape()));
  convert_floats(float_format(header_.dtype), header_.dtype.order, file_.bytes().data() + header_.data_begin,
                 std::span(stored.data(), static_cast<std::size_t>(stored.size())));
  return in_order(header_, std::move(stored));
}

TensorValues<float> NpyFile::to_f32() const {
  return floats<float>("NpyFile::to_f32");
}

TensorValues<double> NpyFile::to_f64() const {
  return floats<double>("NpyFile::to_f64");
}

TensorValues<Index> NpyFile::to_index() const {
  const auto kind = header_.dtype.kind;
  check(kind == NpyDtype::Kind::kSigned || kind == NpyDtype::Kind::kUnsigned, "NpyFile::to_index", "dtype of " + path(),
        in_quotes(descr()), "an integer dtype, i1 to i8 or u1 to u8");
  return in_order(header_, convert_to_index(integers("NpyFile::to_index")));
}

TensorValues<bool> NpyFile::to_bool() const {
  check(header_.dtype.kind != NpyDtype::Kind::kFloat, "NpyFile::to_bool", "dtype of " + path(), in_quotes(descr()),
        "bool, or an integer dtype that holds 0 and 1");
  return in_order(header_, convert_to_bool(integers("NpyFile::to_bool")));
}

StoredIntegers NpyFile::integers(const char* function) const {
  const NpyDtype dtype = header_.dtype;
  const auto kind = dtype.kind == NpyDtype::Kind::kBool     ? IntegerFormat::Kind::kBool
                    : dtype.kind == NpyDtype::Kind::kSigned ? IntegerFormat::Kind::kSigned
                                                            : IntegerFormat::Kind::kUnsigned;
  return {.format = {kind, dtype.bytes},
          .order = dtype.order,
          .from = file_.bytes().data() + header_.data_begin,
          .count = *checked_num_elements(shape()),
          .function = function,
          .name = path()};
}

namespace {

std::string written_header(std::span<const Index> shape, const char* dtype) {
  std::string tuple;
  for (Index length : shape) tuple.append(tuple.empty() ? "" : ", ").append(std::to_string(length));
  if (shape.size() == 1) tuple += ',';
  const char* order = std::endian::native == std::endian::little ? "<" : ">";
  std::string dict =
      std::string("{'descr': '") + order + dtype + "', 'fortran_order': False, 'shape': (" + tuple + "), }";
  // The format asks that the values begin at a multiple of 64 and that a line end stands before them.
  constexpr Index kAlignment = 64, kPrefix = 10;
  const Index length = round_up(kPrefix + static_cast<Index>(dict.size()) + 1, kAlignment) - kPrefix;
  dict.resize(static_cast<std::size_t>(length - 1), ' ');
  std::string header = "\x93NUMPY\x01";
  header += {'\0', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  return header + dict + '\n';
}

template <class T>
void write_values(AtomicFile& file, std::span<const Index> shape, std::span<const T> values) {
  const auto count = checked_num_elements(shape);
  const bool is_shape =
      shape.size() <= kMaxRank && std::ranges::all_of(shape, [](Index length) { return length >= 0; });
  check(is_shape && count == static_cast<Index>(values.size()), "write_npy", "shape", to_string(shape),
        "a shape of " + std::to_string(values.size()) + " values");
  const std::string header = written_header(shape, sizeof(T) == 4 ? "f4" : "f8");
  file.write(std::as_bytes(std::span(header)));
  file.write(std::as_bytes(values));
}

template <class T>
void write_whole_file(const std::string& path, std::span<const Index> shape, std::span<const T> values) {
  AtomicFile file(path);
  write_values(file, shape, values);
  file.commit();
}

}  // namespace

void write_npy(AtomicFile& file, std::span<const Index> shape, std::span<const float> values) {
  write_values(file, shape, values);
}

void write_npy(AtomicFile& file, std::span<const Index> shape, std::span<const double> values) {
  write_values(file, shape, values);
}

void write_npy(const std::string& path, std::span<const Index> shape, std::span<const float> values) {
  write_whole_file(path, shape, values);
}

void write_npy(const std::string& path, std::span<const Index> shape, std::span<const double> values) {
  write_whole_file(path, shape, values);
}

}  // namespace qkv
