#include "cli/operands.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "cli/exit_code.h"
#include "cli/suggest.h"
#include "qkv/core/check.h"
#include "qkv/io/npy.h"
#include "qkv/io/safetensors.h"

namespace qkv::cli {
namespace {

struct InSafetensors {
  std::string path, name;
};

std::optional<InSafetensors> parse_safetensors(const std::string& operand) {
  constexpr std::string_view kMark = ".safetensors:", kSuffix = ".safetensors";
  if (const auto at = operand.find(kMark); at != std::string::npos)
    return InSafetensors{operand.substr(0, at + kSuffix.size()), operand.substr(at + kMark.size())};
  if (operand.ends_with(kSuffix))
    throw CommandError(ExitCode::kInput,
                       operand + ": which tensor? name it as " + operand + ":NAME (qkv inspect lists the names)");
  return std::nullopt;
}

const SafetensorsInfo& find_tensor(const SafetensorsFile& file, const std::string& name) {
  if (!file.contains(name))
    throw CommandError(ExitCode::kInput, file.path() + " holds no tensor '" + name + "'" +
                                             did_you_mean(name, file.names()) + " (qkv inspect lists the names)");
  return file.info(name);
}

// Every value of a tensor, read as Stored and then converted.
template <class Stored, class T, class Convert>
TensorValues<T> convert_all(const SafetensorsInfo& tensor, std::span<const std::byte> bytes, Convert convert) {
  AlignedBuffer<T> values(*checked_num_elements(tensor.shape));
  for (Index i = 0; i < values.size(); ++i)
    values.data()[i] = convert(load_number<Stored>(bytes.data() + i * Index{sizeof(Stored)}, std::endian::little));
  return {tensor.shape, std::move(values)};
}

TensorValues<Index> integers_of(const SafetensorsFile& file, const std::string& name) {
  const SafetensorsInfo& tensor = find_tensor(file, name);
  const auto to_index = [](auto value) { return static_cast<Index>(value); };
  if (tensor.dtype == "I32") return convert_all<std::int32_t, Index>(tensor, file.bytes(name), to_index);
  check(tensor.dtype == "I64", file.path(), "dtype of '" + name + "'", tensor.dtype, "I64 or I32");
  return convert_all<std::int64_t, Index>(tensor, file.bytes(name), to_index);
}

TensorValues<bool> booleans_of(const SafetensorsFile& file, const std::string& name) {
  const SafetensorsInfo& tensor = find_tensor(file, name);
  check(tensor.dtype == "BOOL" || tensor.dtype == "U8", file.path(), "dtype of '" + name + "'", tensor.dtype,
        "BOOL or U8");
  return convert_all<std::uint8_t, bool>(tensor, file.bytes(name), [&](std::uint8_t value) {
    check(value <= 1, file.path(), "a value of '" + name + "'", int{value}, "0 or 1");
    return value == 1;
  });
}

}  // namespace

TensorValues<float> load_floats(const std::string& operand) {
  return blame(ExitCode::kInput, [&] {
    const auto place = parse_safetensors(operand);
    if (!place) return NpyFile(operand).to_f32();
    const SafetensorsFile file(place->path);
    find_tensor(file, place->name);
    return file.load_f32(place->name);
  });
}

TensorValues<Index> load_integers(const std::string& operand) {
  return blame(ExitCode::kInput, [&] {
    const auto place = parse_safetensors(operand);
    return place ? integers_of(SafetensorsFile(place->path), place->name) : NpyFile(operand).to_index();
  });
}

TensorValues<bool> load_booleans(const std::string& operand) {
  return blame(ExitCode::kInput, [&] {
    const auto place = parse_safetensors(operand);
    return place ? booleans_of(SafetensorsFile(place->path), place->name) : NpyFile(operand).to_bool();
  });
}

std::vector<Index> with_leading_ones(const std::string& operand, const std::vector<Index>& shape,
                                     std::size_t least_rank) {
  constexpr std::size_t kRank = 4;
  if (shape.size() < least_rank || shape.size() > kRank)
    throw CommandError(ExitCode::kInput, operand + ": got a tensor of " + std::to_string(shape.size()) +
                                             " axes, expected " + std::to_string(least_rank) + " to " +
                                             std::to_string(kRank));
  std::vector<Index> full(kRank - shape.size(), 1);
  full.insert(full.end(), shape.begin(), shape.end());
  return full;
}

}  // namespace qkv::cli
