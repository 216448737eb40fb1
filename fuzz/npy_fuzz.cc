// A .npy file: refused in the documented way, or read value by value as its strides say and, written anew, read as the
// same values again.

#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "fuzz/fuzz_support.h"
#include "qkv/io/npy.h"

namespace qkv::fuzz {
namespace {

// Calls visit(place, stored) for every value: its place in row-major order and in the file.
template <class Visit>
void for_each_value(const std::vector<Index>& shape, bool fortran_order, Visit visit) {
  const Index count = *checked_num_elements(shape);
  for (Index place = 0; place < count; ++place) {
    Index stored = 0, rest = place, stride = count;
    for (std::size_t axis = shape.size();
         axis-- > 0;) {  // from the fastest axis of the result, the slowest of the file
      stride /= shape[axis];
      stored += rest % shape[axis] * stride;
      rest /= shape[axis];
    }
    visit(place, fortran_order ? stored : place);
  }
}

template <class T>
T stored_value(std::string_view bytes, const NpyHeader& header, Index n) {
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.data()) + header.data_begin;
  return load_number<T>(begin + n * static_cast<Index>(sizeof(T)), header.dtype.order);
}

void check_floats(const NpyFile& file, const NpyHeader& header, std::string_view bytes) {
  const auto values = file.to_f32();
  require(values.shape == file.shape(), "the shape of the header");
  const auto doubles = file.to_f64();
  require(doubles.shape == values.shape, "the same shape as doubles");
  for (Index n = 0; n < values.values.size(); ++n) {
    const float value = values.values.data()[n], rounded = static_cast<float>(doubles.values.data()[n]);
    require(rounded == value || (std::isnan(rounded) && std::isnan(value)), "doubles that round to the floats");
  }
  if (header.dtype.bytes == 4) {
    for_each_value(values.shape, file.fortran_order(), [&](Index place, Index stored) {
      require(std::bit_cast<std::uint32_t>(values.values.data()[place]) ==
                  stored_value<std::uint32_t>(bytes, header, stored),
              "each value from its place");
    });
  }
  static const OutputFile output;
  const auto size = static_cast<std::size_t>(values.values.size());
  write_npy(output.path(), values.shape, {values.values.data(), size});
  const auto copy = NpyFile(output.path()).to_f32();
  require(copy.shape == values.shape, "the same shape is read back");
  require(size == 0 || std::memcmp(copy.values.data(), values.values.data(), size * sizeof(float)) == 0,
          "the same values are read back");
}

void check_integers(const NpyFile& file, const NpyHeader& header, std::string_view bytes) {
  std::optional<TensorValues<Index>> numbers;
  try {
    numbers = file.to_index();
    if (header.dtype.bytes == 8) {
      for_each_value(numbers->shape, file.fortran_order(), [&](Index place, Index stored) {
        require(numbers->values.data()[place] == stored_value<Index>(bytes, header, stored),
                "each value from its place");
      });
    }
  } catch (const std::invalid_argument& error) {
    check_message(error.what());
  }
  check_bools(numbers, [&] { return file.to_bool(); });
}

void test(std::string_view bytes) {
  const MemoryFile input(bytes);
  try {
    const NpyFile file(input.path());
    const NpyHeader header = parse_npy_header("again", std::as_bytes(std::span(bytes)));
    require(header.shape == file.shape() && header.descr == file.descr(), "the same header twice");
    require(header.data_begin + *checked_num_elements(header.shape) * header.dtype.bytes ==
                static_cast<Index>(bytes.size()),
            "the values fill the file");
    if (header.dtype.kind == NpyDtype::Kind::kFloat) {
      check_floats(file, header, bytes);
    } else {
      check_integers(file, header, bytes);
    }
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
