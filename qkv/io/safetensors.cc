#include "qkv/io/safetensors.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "qkv/core/check.h"
#include "qkv/core/in_quotes.h"
#include "qkv/io/convert.h"

namespace qkv {

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  SafetensorsHeader header = parse_safetensors_header(path, file_.bytes());
  tensors_ = std::move(header.tensors);
  metadata_ = std::move(header.metadata);
  index_.reserve(tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> result;
  result.reserve(tensors_.size());
  for (const SafetensorsInfo& tensor : tensors_) result.push_back(tensor.name);
  return result;
}

const SafetensorsInfo& SafetensorsFile::info(const std::string& name) const {
  const auto found = index_.find(name);
  if (found == index_.end()) {
    throw std::out_of_range("SafetensorsFile: tensor of " + path() + ": got " + in_quotes(name) +
                            ", expected one of its " + std::to_string(tensors_.size()) + " names");
  }
  return tensors_[found->second];
}

std::span<const std::byte> SafetensorsFile::bytes(const std::string& name) const {
  const SafetensorsInfo& tensor = info(name);
  return file_.bytes().subspan(static_cast<std::size_t>(tensor.begin),
                               static_cast<std::size_t>(tensor.end - tensor.begin));
}

template <class T>
void SafetensorsFile::read_floats(const SafetensorsInfo& tensor, std::span<T> out) const {
  convert_floats(*safetensors_float_format(tensor.dtype), std::endian::little, file_.bytes().data() + tensor.begin,
                 out);
}

template <class T>
TensorValues<T> SafetensorsFile::load_floats(const std::string& name) const {
  const SafetensorsInfo& tensor = info(name);
  check_float(tensor);
  // The size was checked against the file when the header was read.
  TensorValues<T> result{tensor.shape, AlignedBuffer<T>(*checked_num_elements(tensor.shape))};
  read_floats(tensor, std::span(result.values.data(), static_cast<std::size_t>(result.values.size())));
  return result;
}

TensorValues<float> SafetensorsFile::load_f32(const std::string& name) const {
  return load_floats<float>(name);
}

TensorValues<double> SafetensorsFile::load_f64(const std::string& name) const {
  return load_floats<double>(name);
}

StateDict SafetensorsFile::load_state_dict(const std::string& prefix) const {
  StateDict result;
  for (const SafetensorsInfo& tensor : tensors_) {
    if (!tensor.name.starts_with(prefix) || safetensors_integer_format(tensor.dtype)) continue;
    result.emplace(tensor.name, load_f32(tensor.name));
  }
  return result;
}

TensorValues<Index> SafetensorsFile::load_index(const std::string& name) const {
  const SafetensorsInfo& tensor = info(name);
  const auto format = safetensors_integer_format(tensor.dtype);
  check(format && format->kind != IntegerFormat::Kind::kBool, "SafetensorsFile::load_index",
        "dtype of " + in_quotes(name) + " in " + path(), tensor.dtype, "I8 to I64 or U8 to U64");
  return {tensor.shape, convert_to_index(integers(tensor, "SafetensorsFile::load_index"))};
}

TensorValues<bool> SafetensorsFile::load_bool(const std::string& name) const {
  const SafetensorsInfo& tensor = info(name);
  check(safetensors_integer_format(tensor.dtype).has_value(), "SafetensorsFile::load_bool",
        "dtype of " + in_quotes(name) + " in " + path(), tensor.dtype, "BOOL, or an integer dtype that holds 0 and 1");
  return {tensor.shape, convert_to_bool(integers(tensor, "SafetensorsFile::load_bool"))};
}

StoredIntegers SafetensorsFile::integers(const SafetensorsInfo& tensor, const char* function) const {
  return {.format = *safetensors_integer_format(tensor.dtype),
          .order = std::endian::little,
          .from = file_.bytes().data() + tensor.begin,
          .count = *checked_num_elements(tensor.shape),
          .function = function,
          .name = in_quotes(tensor.name) + " in " + path()};
}

void SafetensorsFile::check_shape(const SafetensorsInfo& tensor, std::span<const Index> expected) const {
  check(std::ranges::equal(tensor.shape, expected), "SafetensorsFile::load",
        "shape of " + in_quotes(tensor.name) + " in " + path(), to_string(tensor.shape), to_string(expected));
}

void SafetensorsFile::check_float(const SafetensorsInfo& tensor) const {
  check(safetensors_float_format(tensor.dtype).has_value(), "SafetensorsFile::load",
        "dtype of " + in_quotes(tensor.name) + " in " + path(), tensor.dtype, "F32, F16, BF16 or F64");
}

void SafetensorsFile::read_f32(const SafetensorsInfo& tensor, std::span<float> out) const {
  read_floats(tensor, out);
}

}  // namespace qkv
