#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "qkv/core/index.h"
#include "qkv/core/tensor.h"
#include "qkv/core/tensor_values.h"
#include "qkv/io/mapped_file.h"
#include "qkv/io/safetensors_header.h"

namespace qkv {

/// A safetensors file, mapped into memory: the header is checked when it is opened, values are read when asked for.
///
/// Every rule of the format is checked: header length, UTF-8, JSON without duplicate keys, known dtypes, sizes that
/// agree with shapes, data without overlap, hole or rest. Tensors of size zero and of rank 0 are fine.
/// Edge: stricter than the reference library in two points: no field beside dtype, shape and data_offsets, and at
///   most kMaxRank axes.
/// Errors: IoError if the file cannot be read; FormatError, with the byte, if it breaks a rule.
/// Threads: const, so one object may serve many threads.
/// Source: https://github.com/huggingface/safetensors, section "Format".
class SafetensorsFile {
 public:
  /// Opens the file and checks its header.
  explicit SafetensorsFile(const std::string& path);

  /// The file, as the caller named it.
  const std::string& path() const { return file_.path(); }
  /// Every tensor, in the order of the data.
  const std::vector<SafetensorsInfo>& tensors() const { return tensors_; }
  /// Every name, in the order of the data.
  std::vector<std::string> names() const;
  /// Whether there is a tensor of this name.
  bool contains(const std::string& name) const { return index_.contains(name); }
  /// The free text of the header's __metadata__; empty if there is none.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// What the header says of a tensor.
  /// Errors of these and of the loads: std::out_of_range for a name that the file does not hold.
  const SafetensorsInfo& info(const std::string& name) const;
  /// The raw little-endian values, at whatever alignment the file gives them; valid as long as this object.
  std::span<const std::byte> bytes(const std::string& name) const;

  /// The values as float: F32, F16 and BF16 exactly, F64 rounded to nearest even.
  /// Errors: std::invalid_argument for another dtype, or a shape that is not the expected one.
  template <int Rank>
  Tensor<float, Rank> load(const std::string& name, const Shape<Rank>& expected) const {
    const SafetensorsInfo& tensor = info(name);
    check_float(tensor);
    check_shape(tensor, expected);
    Tensor<float, Rank> result(expected);
    read_f32(tensor, {result.data(), static_cast<std::size_t>(result.size())});
    return result;
  }

  /// The same for any rank and shape; as double all of them exactly.
  /// @{
  TensorValues<float> load_f32(const std::string& name) const;
  TensorValues<double> load_f64(const std::string& name) const;
  /// @}

  /// Every tensor whose name begins with `prefix`, under its whole name. Tensors of integers and booleans, which are
  /// counters and positions but never weights, are left out.
  /// Errors: std::invalid_argument for a dtype that is neither of these nor can be read as float.
  StateDict load_state_dict(const std::string& prefix = "") const;

  /// Any integer dtype. Errors: std::invalid_argument for another dtype, or a value >= 2^63.
  TensorValues<Index> load_index(const std::string& name) const;
  /// BOOL, and any integer dtype that holds only 0 and 1. Errors: std::invalid_argument for any other.
  TensorValues<bool> load_bool(const std::string& name) const;

 private:
  StoredIntegers integers(const SafetensorsInfo& tensor, const char* function) const;
  void check_float(const SafetensorsInfo& tensor) const;
  void check_shape(const SafetensorsInfo& tensor, std::span<const Index> expected) const;
  void read_f32(const SafetensorsInfo& tensor, std::span<float> out) const;
  template <class T>
  void read_floats(const SafetensorsInfo& tensor, std::span<T> out) const;
  template <class T>
  TensorValues<T> load_floats(const std::string& name) const;

  MappedFile file_;
  std::vector<SafetensorsInfo> tensors_;
  std::unordered_map<std::string, std::size_t> index_;  // name -> place in tensors_
  std::map<std::string, std::string> metadata_;
};

}  // namespace qkv
