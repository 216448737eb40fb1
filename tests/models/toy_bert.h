#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "qkv/core/tensor.h"
#include "support/random.h"

namespace qkv::test {

/// A folder of its own for one test, removed with all that is in it.
class ModelFolder {
 public:
  ModelFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "qkv_models_test_XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~ModelFolder() { std::filesystem::remove_all(path_); }
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;

  std::string path() const { return path_.string(); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  void write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(file(name), std::ios::binary) << content;
  }
  void remove(const std::string& name) const { std::filesystem::remove_all(path_ / name); }

 private:
  std::filesystem::path path_;
};

struct ToyTensor {
  std::vector<Index> shape;
  std::vector<float> values;
  std::string dtype = "F32";  // what the header says; the bytes are floats whatever it is
};

/// Everything that makes up a folder with a tiny BERT of random weights. Change what you like, then write it.
struct ToyBert {
  nlohmann::json config = {
      {"model_type", "bert"},     {"vocab_size", 12},        {"hidden_size", 12},    {"num_hidden_layers", 2},
      {"num_attention_heads", 3}, {"intermediate_size", 20}, {"hidden_act", "gelu"}, {"max_position_embeddings", 16},
      {"type_vocab_size", 2},     {"layer_norm_eps", 1e-12}};
  std::string vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\nsat\nmat\non\n##s\n.\n";
  std::map<std::string, ToyTensor> tensors;

  explicit ToyBert(const std::string& prefix = "", std::uint64_t seed = 1) {
    Random random(seed);
    const auto add = [&](const std::string& name, const std::vector<Index>& shape, float scale) {
      ToyTensor tensor{.shape = shape, .values = {}};
      Index count = 1;
      for (Index length : shape) count *= length;
      for (Index n = 0; n < count; ++n) tensor.values.push_back(random.normal() * scale);
      tensors[prefix + name] = std::move(tensor);
    };
    const auto linear = [&](const std::string& name, Index out_dim, Index in_dim) {
      add(name + ".weight", {out_dim, in_dim}, 0.4f);
      add(name + ".bias", {out_dim}, 0.5f);
    };
    const auto norm = [&](const std::string& name) {
      add(name + ".weight", {12}, 1);
      add(name + ".bias", {12}, 0.5f);
    };
    add("embeddings.word_embeddings.weight", {12, 12}, 1);
    add("embeddings.position_embeddings.weight", {16, 12}, 1);
    add("embeddings.token_type_embeddings.weight", {2, 12}, 1);
    norm("embeddings.LayerNorm");
    for (const char* layer : {"encoder.layer.0.", "encoder.layer.1."}) {
      for (const char* part : {"attention.self.query", "attention.self.key", "attention.self.value"})
        linear(std::string(layer) + part, 12, 12);
      linear(std::string(layer) + "attention.output.dense", 12, 12);
      norm(std::string(layer) + "attention.output.LayerNorm");
      linear(std::string(layer) + "intermediate.dense", 20, 12);
      linear(std::string(layer) + "output.dense", 12, 20);
      norm(std::string(layer) + "output.LayerNorm");
    }
  }

  /// The weights as a safetensors file.
  std::string weights() const {
    nlohmann::json header;
    std::string data;
    for (const auto& [name, tensor] : tensors) {
      const std::size_t begin = data.size();
      for (float value : tensor.values) {
        const auto bits = std::bit_cast<std::uint32_t>(value);
        for (int shift = 0; shift < 32; shift += 8) data += static_cast<char>(bits >> shift & 0xff);
      }
      header[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
    }
    const std::string text = header.dump();
    std::string length;
    for (int shift = 0; shift < 64; shift += 8) length += static_cast<char>(text.size() >> shift & 0xff);
    return length + text + data;
  }

  void write(const ModelFolder& folder) const {
    folder.write("config.json", config.dump());
    folder.write("vocab.txt", vocab);
    folder.write("model.safetensors", weights());
  }

  void rename(const std::string& from, const std::string& to) {
    auto node = tensors.extract(from);
    ASSERT_FALSE(node.empty()) << from;
    node.key() = to;
    tensors.insert(std::move(node));
  }

  template <int Rank>
  Tensor<float, Rank> tensor(const std::string& name) const {
    const ToyTensor& stored = tensors.at(name);
    Shape<Rank> shape{};
    std::copy(stored.shape.begin(), stored.shape.end(), shape.begin());
    Tensor<float, Rank> result(shape);
    std::copy(stored.values.begin(), stored.values.end(), result.data());
    return result;
  }
};

}  // namespace qkv::test
