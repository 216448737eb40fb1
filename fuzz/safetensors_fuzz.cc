// A safetensors file: refused in the documented way, or read as another JSON reader understands its header and, written
// anew, read as the same values again.

#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "fuzz/fuzz_support.h"
#include "qkv/io/safetensors.h"
#include "qkv/io/safetensors_writer.h"

namespace qkv::fuzz {
namespace {

constexpr Index kLengthBytes = 8;

void check_header(const SafetensorsFile& file, std::string_view bytes) {
  const auto length = load_number<std::uint64_t>(reinterpret_cast<const std::byte*>(bytes.data()), std::endian::little);
  const auto header = nlohmann::json::parse(bytes.substr(kLengthBytes, length), nullptr, false);
  require(header.is_object(), "an accepted header is a JSON object");
  require(header.size() == file.tensors().size() + (header.contains(kSafetensorsMetadata) ? 1 : 0),
          "every entry of the header is a tensor");
  const Index data_begin = kLengthBytes + static_cast<Index>(length);
  Index covered = data_begin;
  for (const SafetensorsInfo& tensor : file.tensors()) {
    const auto& entry = header.at(tensor.name);
    require(entry.at("dtype") == tensor.dtype, "dtype as in the header");
    require(entry.at("shape") == tensor.shape, "shape as in the header");
    require(entry.at("data_offsets") == nlohmann::json({tensor.begin - data_begin, tensor.end - data_begin}),
            "data_offsets as in the header");
    require(tensor.begin == covered && tensor.begin <= tensor.end, "no hole, no overlap");
    require(static_cast<Index>(file.bytes(tensor.name).size()) == tensor.end - tensor.begin, "bytes of the tensor");
    covered = tensor.end;
  }
  require(covered == static_cast<Index>(bytes.size()), "the tensors cover the file");
}

bool is_same(const TensorValues<float>& a, const TensorValues<float>& b) {
  const auto num_bytes = static_cast<std::size_t>(a.values.size()) * sizeof(float);
  return a.shape == b.shape && a.values.size() == b.values.size() &&
         (num_bytes == 0 || std::memcmp(a.values.data(), b.values.data(), num_bytes) == 0);
}

void check_floats(const SafetensorsFile& file) {
  static const OutputFile output;
  StateDict state;
  for (const SafetensorsInfo& tensor : file.tensors()) {
    if (safetensors_float_format(tensor.dtype)) state[tensor.name] = file.load_f32(tensor.name);
  }
  write_safetensors(output.path(), state, file.metadata());
  const SafetensorsFile copy(output.path());
  const StateDict read = copy.load_state_dict();
  require(copy.metadata() == file.metadata(), "metadata is written and read back");
  require(read.size() == state.size(), "every tensor is written and read back");
  for (const auto& [name, tensor] : state) require(is_same(read.at(name), tensor), "the same values are read back");
}

// What is no integer is refused; what is a bool as well as a number is the same as both.
void check_integers(const SafetensorsFile& file, const SafetensorsInfo& tensor) {
  std::optional<TensorValues<Index>> numbers;
  try {
    numbers = file.load_index(tensor.name);
    require(static_cast<Index>(numbers->values.size()) == checked_num_elements(tensor.shape),
            "as many as the shape says");
  } catch (const std::invalid_argument& error) {
    check_message(error.what());
  }
  check_bools(numbers, [&] { return file.load_bool(tensor.name); });
}

void test(std::string_view bytes) {
  const MemoryFile input(bytes);
  try {
    const SafetensorsFile file(input.path());
    check_header(file, bytes);
    check_floats(file);
    for (const SafetensorsInfo& tensor : file.tensors()) check_integers(file, tensor);
  } catch (const FormatError& error) {
    check_refusal(error, input.path(), bytes.size());
  }
}

}  // namespace
}  // namespace qkv::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  qkv::fuzz::test(qkv::fuzz::to_text(data, size));
  return 0;
}
