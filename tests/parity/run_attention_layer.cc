// Runs one MultiHeadAttention of any kind for tests/parity: run_attention_layer IN.safetensors OUT_FOLDER
//
// IN holds query, key, value [batch, len, width], the layer's state dict under the prefix "layer.", optional valid_lens
// [batch] or [batch, q_len] (integers), and metadata names (ours, d2l or query_layer), scoring (dot, cosine or
// additive), head_split (project_then_split or split_then_project), num_heads, num_kv_heads, scale (empty: the
// default). Writes out.npy and attn_weights.npy.

#include <cstdio>
#include <exception>
#include <map>
#include <string>

#include "qkv/io/npy.h"
#include "qkv/io/safetensors.h"
#include "qkv/nn/mha_names.h"

namespace {

using qkv::Index;

const std::string kPrefix = "layer.";

template <int Rank>
qkv::Tensor<float, Rank> blank(const qkv::SafetensorsFile& file, const std::string& name) {
  qkv::Shape<Rank> shape;
  const auto& stored = file.info(name).shape;
  std::copy(stored.begin(), stored.end(), shape.begin());
  return qkv::Tensor<float, Rank>(shape);
}

qkv::Linear blank_linear(const qkv::SafetensorsFile& file, const std::string& name) {
  qkv::Linear layer{.weight = blank<2>(file, kPrefix + name + ".weight")};
  if (file.contains(kPrefix + name + ".bias")) layer.bias = blank<1>(file, kPrefix + name + ".bias");
  return layer;
}

// The layer's shapes are those of its state dict, which then fills it.
qkv::MultiHeadAttention load_layer(const qkv::SafetensorsFile& file) {
  const std::map<std::string, qkv::MhaNames> kinds{
      {"ours", qkv::MhaNames::kOurs}, {"d2l", qkv::MhaNames::kD2l}, {"query_layer", qkv::MhaNames::kQueryLayer}};
  const auto& metadata = file.metadata();
  const qkv::MhaNames kind = kinds.at(metadata.at("names"));
  const auto names = qkv::projection_names(kind);
  qkv::MultiHeadAttention layer{.q_proj = blank_linear(file, names.q_proj),
                                .k_proj = blank_linear(file, names.k_proj),
                                .v_proj = blank_linear(file, names.v_proj),
                                .num_heads = std::stoll(metadata.at("num_heads")),
                                .num_kv_heads = std::stoll(metadata.at("num_kv_heads"))};
  if (file.contains(kPrefix + names.out_proj + ".weight")) layer.out_proj = blank_linear(file, names.out_proj);
  if (metadata.at("head_split") == "split_then_project") layer.head_split = qkv::HeadSplit::kSplitThenProject;
  if (metadata.at("scoring") == "cosine") layer.scoring = qkv::CosineScoring{};
  if (metadata.at("scoring") == "additive")
    layer.scoring =
        qkv::AdditiveWeights{blank<2>(file, kPrefix + "scoring.w_q"), blank<2>(file, kPrefix + "scoring.w_k"),
                             blank<1>(file, kPrefix + "scoring.w_v")};
  qkv::load_state_dict(layer, kind, file.load_state_dict(kPrefix), {.prefix = kPrefix});
  return layer;
}

qkv::Tensor<float, 3> load_input(const qkv::SafetensorsFile& file, const std::string& name) {
  return file.load<3>(name, blank<3>(file, name).shape());
}

template <int Rank>
void write(const std::string& path, const qkv::Tensor<float, Rank>& tensor) {
  qkv::write_npy(path, tensor.shape(), {tensor.data(), static_cast<std::size_t>(tensor.size())});
}

void run(const std::string& in, const std::string& out_folder) {
  const qkv::SafetensorsFile file(in);
  const auto layer = load_layer(file);
  qkv::MultiHeadAttentionOptions options{.observe = {.attn_weights = true}};
  if (const std::string& scale = file.metadata().at("scale"); !scale.empty()) options.scale = std::stod(scale);
  qkv::TensorValues<Index> lengths;
  if (file.contains("valid_lens")) {
    lengths = file.load_index("valid_lens");
    if (lengths.shape.size() == 1)
      options.mask.valid_lens = qkv::TensorView<const Index, 1>(lengths.values.data(), {lengths.shape[0]});
    else
      options.mask.valid_lens =
          qkv::TensorView<const Index, 2>(lengths.values.data(), {lengths.shape[0], lengths.shape[1]});
  }
  const auto result =
      forward(layer, load_input(file, "query"), load_input(file, "key"), load_input(file, "value"), options);
  write(out_folder + "/out.npy", result.out);
  write(out_folder + "/attn_weights.npy", result.attn_weights);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: run_attention_layer IN.safetensors OUT_FOLDER\n", stderr);
    return 2;
  }
  try {
    run(argv[1], argv[2]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "run_attention_layer: %s\n", error.what());
    return 1;
  }
}
