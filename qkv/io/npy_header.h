#pragma once

#include <bit>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "qkv/core/index.h"

namespace qkv {

/// The numbers of a .npy file.
struct NpyDtype {
  /// What the bits mean.
  enum class Kind { kBool, kFloat, kSigned, kUnsigned };
  Kind kind = Kind::kFloat;                 ///< IEEE, or two's complement if signed.
  Index bytes = 4;                          ///< 1, 2, 4 or 8, and what the kind allows: kBool 1, kFloat 2 and up.
  std::endian order = std::endian::little;  ///< Of the bytes of each number.
};

/// What the header of a .npy file says.
struct NpyHeader {
  std::string descr;           ///< The dtype as the file spells it: "<f4".
  NpyDtype dtype;              ///< The same, read.
  bool fortran_order = false;  ///< The first axis varies fastest.
  std::vector<Index> shape;    ///< The length of every axis.
  Index data_begin = 0;        ///< First byte of the values, counted from the start of the file.
};

/// Reads and checks the header of a whole file (versions 1.0, 2.0, 3.0), and that the values fill the rest exactly.
/// Errors: FormatError; for objects (pickles), strings, records and other dtypes than NpyDtype's it names the dtype.
/// Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
NpyHeader parse_npy_header(const std::string& path, std::span<const std::byte> file);

}  // namespace qkv
