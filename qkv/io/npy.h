#pragma once

#include <span>
#include <string>
#include <vector>

#include "qkv/core/index.h"
#include "qkv/core/tensor_values.h"
#include "qkv/io/atomic_file.h"
#include "qkv/io/convert.h"
#include "qkv/io/mapped_file.h"
#include "qkv/io/npy_header.h"

namespace qkv {

/// A .npy file of NumPy, mapped into memory: the header is checked when it is opened, values are read when asked for.
///
/// Versions 1.0, 2.0 and 3.0; bool, integers of 1, 2, 4, 8 bytes and floats of 2, 4, 8 bytes, of either byte order.
/// Values come out row-major, also from a file in Fortran order.
/// Errors: IoError if the file cannot be read; FormatError, with the byte, if it is malformed, has bytes too many, more
///   than kMaxRank axes, or another dtype. Pickled objects are never loaded.
/// Threads: const, so one object may serve many threads.
class NpyFile {
 public:
  /// Opens the file and checks its header.
  explicit NpyFile(const std::string& path);

  /// The file, as the caller named it.
  const std::string& path() const { return file_.path(); }
  /// The dtype as the file spells it: "<f4".
  const std::string& descr() const { return header_.descr; }
  /// The length of every axis.
  const std::vector<Index>& shape() const { return header_.shape; }
  /// Whether the first axis varies fastest in the file.
  bool fortran_order() const { return header_.fortran_order; }

  /// f2 and f4 exactly, f8 as float rounded to nearest even. Errors: std::invalid_argument for another dtype.
  /// @{
  TensorValues<float> to_f32() const;
  TensorValues<double> to_f64() const;
  /// @}
  /// Any integer dtype. Errors: std::invalid_argument for another dtype, or a value >= 2^63.
  TensorValues<Index> to_index() const;
  /// bool, and any integer dtype that holds only 0 and 1. Errors: std::invalid_argument for any other.
  TensorValues<bool> to_bool() const;

 private:
  template <class T>
  TensorValues<T> floats(const char* function) const;
  StoredIntegers integers(const char* function) const;

  MappedFile file_;
  NpyHeader header_;
};

/// Writes values, packed and row-major, as a .npy file of version 1.0 and dtype f4 or f8; whole or not at all, as AtomicFile
/// says. Errors: std::invalid_argument unless shape has at most kMaxRank lengths >= 0 whose product is values.size();
/// IoError.
/// @{
void write_npy(const std::string& path, std::span<const Index> shape, std::span<const float> values);
void write_npy(const std::string& path, std::span<const Index> shape, std::span<const double> values);
/// @}

/// The same into a file that the caller commits, for several files that shall appear together.
/// @{
void write_npy(AtomicFile& file, std::span<const Index> shape, std::span<const float> values);
void write_npy(AtomicFile& file, std::span<const Index> shape, std::span<const double> values);
/// @}

}  // namespace qkv
