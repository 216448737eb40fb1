#include "qkv/io/safetensors_writer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "qkv/core/check.h"
#include "qkv/core/in_quotes.h"
#include "qkv/io/safetensors_header.h"

namespace qkv {

namespace {

constexpr const char* kFunction = "write_safetensors";
constexpr std::size_t kAlignment = 8;  // of the header, and with it of the data

std::string in_json(const std::string& text, const std::string& what) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (std::ranges::all_of(text, is_plain)) return '"' + text + '"';  // a third of the time of what follows
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw_invalid(kFunction, what, in_quotes(text), "valid UTF-8");
  }
}

void check_shape(const SafetensorsEntry& tensor) {
  const auto count = checked_num_elements(tensor.shape);
  const bool is_shape =
      tensor.shape.size() <= kMaxRank && std::ranges::all_of(tensor.shape, [](Index length) { return length >= 0; });
  check(is_shape && count == static_cast<Index>(tensor.values.size()), kFunction, "shape of " + in_quotes(tensor.name),
        to_string(tensor.shape), "a shape of " + std::to_string(tensor.values.size()) + " values");
}

std::vector<const SafetensorsEntry*> by_name(std::span<const SafetensorsEntry> tensors) {
  std::vector<const SafetensorsEntry*> sorted;
  for (const SafetensorsEntry& tensor : tensors) {
    check(tensor.name != kSafetensorsMetadata, kFunction, "name of a tensor", in_quotes(tensor.name),
          "any but the name that the format reserves");
    check_shape(tensor);
    sorted.push_back(&tensor);
  }
  std::ranges::sort(sorted, {}, &SafetensorsEntry::name);
  const auto twice = std::ranges::adjacent_find(sorted, {}, &SafetensorsEntry::name);
  if (twice != sorted.end())
    throw_invalid(kFunction, "name of a tensor", in_quotes((*twice)->name) + " twice", "each name once");
  return sorted;
}

// The length, and the JSON text that it counts.
std::string header_bytes(std::span<const SafetensorsEntry* const> tensors,
                         const std::map<std::string, std::string>& metadata) {
  std::string text;
  for (const auto& [key, value] : metadata) {
    text += text.empty() ? in_json(kSafetensorsMetadata, "") + ":{" : ",";
    text += in_json(key, "key of the metadata") + ":" + in_json(value, "metadata " + in_quotes(key));
  }
  if (!metadata.empty()) text += '}';
  Index begin = 0;
  for (const SafetensorsEntry* tensor : tensors) {
    std::string shape;
    for (Index length : tensor->shape) shape.append(shape.empty() ? "" : ",").append(std::to_string(length));
    const Index end = begin + static_cast<Index>(tensor->values.size_bytes());
    if (!text.empty()) text += ',';
    text += in_json(tensor->name, "name of a tensor") + R"(:{"dtype":"F32","shape":[)" + shape +
            R"(],"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(end) + "]}";
    begin = end;
  }
  text = "{" + text + "}";
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  check(text.size() <= kMaxSafetensorsHeader, kFunction, "bytes of the header", text.size(),
        "at most " + std::to_string(kMaxSafetensorsHeader) + ", the limit of the format");
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(text.size() >> shift & 0xff);
  return bytes + text;
}

void write_values(AtomicFile& file, std::span<const float> values) {
  if constexpr (std::endian::native == std::endian::little) {
    file.write(std::as_bytes(values));
  } else {
    std::array<std::byte, sizeof(float)> bytes;
    for (float value : values) {
      bytes = std::bit_cast<decltype(bytes)>(value);
      std::ranges::reverse(bytes);
      file.write(bytes);
    }
  }
}

void write(AtomicFile& file, const std::string& header, std::span<const SafetensorsEntry* const> tensors) {
  file.write(std::as_bytes(std::span(header)));
  for (const SafetensorsEntry* tensor : tensors) write_values(file, tensor->values);
}

}  // namespace

void write_safetensors(AtomicFile& file, std::span<const SafetensorsEntry> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const auto sorted = by_name(tensors);
  write(file, header_bytes(sorted, metadata), sorted);
}

void write_safetensors(const std::string& path, std::span<const SafetensorsEntry> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const auto sorted = by_name(tensors);
  const std::string header = header_bytes(sorted, metadata);  // what is wrong comes out before there is a file
  AtomicFile file(path);
  write(file, header, sorted);
  file.commit();
}

void write_safetensors(const std::string& path, const StateDict& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : tensors) {
    const auto size = static_cast<std::size_t>(tensor.values.size());
    entries.push_back({.name = name, .shape = tensor.shape, .values = {tensor.values.data(), size}});
  }
  write_safetensors(path, entries, metadata);
}

}  // namespace qkv
