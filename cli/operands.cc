#include "cli/operands.h"

#include <optional>
#include <string_view>

#include "cli/exit_code.h"
#include "cli/suggest.h"
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

// Reads an operand of either kind: from_npy(file), or from_safetensors(file, name).
template <class FromNpy, class FromSafetensors>
auto load_operand(const std::string& operand, FromNpy from_npy, FromSafetensors from_safetensors) {
  return blame(ExitCode::kInput, [&] {
    const auto place = parse_safetensors(operand);
    if (!place) return from_npy(NpyFile(operand));
    const SafetensorsFile file(place->path);
    if (!file.contains(place->name))
      throw CommandError(ExitCode::kInput, file.path() + " holds no tensor '" + place->name + "'" +
                                               did_you_mean(place->name, file.names()) +
                                               " (qkv inspect lists the names)");
    return from_safetensors(file, place->name);
  });
}

}  // namespace

template <>
TensorValues<float> load_floats(const std::string& operand) {
  return load_operand(
      operand, [](const NpyFile& file) { return file.to_f32(); },
      [](const SafetensorsFile& file, const std::string& name) { return file.load_f32(name); });
}

template <>
TensorValues<double> load_floats(const std::string& operand) {
  return load_operand(
      operand, [](const NpyFile& file) { return file.to_f64(); },
      [](const SafetensorsFile& file, const std::string& name) { return file.load_f64(name); });
}

TensorValues<Index> load_integers(const std::string& operand) {
  return load_operand(
      operand, [](const NpyFile& file) { return file.to_index(); },
      [](const SafetensorsFile& file, const std::string& name) { return file.load_index(name); });
}

TensorValues<bool> load_booleans(const std::string& operand) {
  return load_operand(
      operand, [](const NpyFile& file) { return file.to_bool(); },
      [](const SafetensorsFile& file, const std::string& name) { return file.load_bool(name); });
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
