// Runs one MultiHeadAttention for tests/parity: run_multi_head_attention IN.safetensors OUT_FOLDER
//
// IN holds query, key, value [batch, len, width], q_proj.weight, q_proj.bias, ... out_proj.bias (biases optional),
// optional attn_bias and keep (0 or 1, as floats) of rank 4 and valid_lens [batch], and metadata num_heads,
// num_kv_heads, causal (0 or 1), q_start. Writes out.npy and attn_weights.npy.

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "qkv/io/npy.h"
#include "qkv/io/safetensors.h"
#include "qkv/nn/multi_head_attention.h"

namespace {

using qkv::Index;

template <int Rank>
qkv::Tensor<float, Rank> load(const qkv::SafetensorsFile& file, const std::string& name) {
  qkv::Shape<Rank> shape;
  const auto& stored = file.info(name).shape;
  std::copy(stored.begin(), stored.end(), shape.begin());
  return file.load<Rank>(name, shape);
}

qkv::Linear load_linear(const qkv::SafetensorsFile& file, const std::string& name) {
  qkv::Linear layer{.weight = load<2>(file, name + ".weight")};
  if (file.contains(name + ".bias")) layer.bias = load<1>(file, name + ".bias");
  return layer;
}

template <int Rank>
void write(const std::string& path, const qkv::Tensor<float, Rank>& tensor) {
  qkv::write_npy(path, tensor.shape(), {tensor.data(), static_cast<std::size_t>(tensor.size())});
}

void run(const std::string& in, const std::string& out_folder) {
  const qkv::SafetensorsFile file(in);
  const auto number = [&](const char* name) { return Index{std::stoll(file.metadata().at(name))}; };
  qkv::MultiHeadAttention layer{.q_proj = load_linear(file, "q_proj"),
                                .k_proj = load_linear(file, "k_proj"),
                                .v_proj = load_linear(file, "v_proj"),
                                .out_proj = load_linear(file, "out_proj"),
                                .num_heads = number("num_heads"),
                                .num_kv_heads = number("num_kv_heads")};
  const auto query = load<3>(file, "query"), key = load<3>(file, "key"), value = load<3>(file, "value");

  qkv::MultiHeadAttentionOptions options{.observe = {.attn_weights = true}};
  options.mask.causal = number("causal") != 0;
  options.mask.q_start = number("q_start");
  qkv::Tensor<float, 4> attn_bias;
  if (file.contains("attn_bias")) options.attn_bias = (attn_bias = load<4>(file, "attn_bias")).view();
  qkv::Tensor<bool, 4> keep;
  if (file.contains("keep")) {
    const auto numbers = load<4>(file, "keep");
    keep = qkv::Tensor<bool, 4>(numbers.shape());
    for (Index n = 0; n < keep.size(); ++n) keep.data()[n] = numbers.data()[n] != 0;
    options.mask.keep = keep.view();
  }
  std::vector<Index> valid_lens;
  if (file.contains("valid_lens")) {
    const auto numbers = load<1>(file, "valid_lens");
    for (Index n = 0; n < numbers.size(); ++n) valid_lens.push_back(static_cast<Index>(numbers(n)));
    options.mask.valid_lens = valid_lens;
  }

  const auto result = forward(layer, query, key, value, options);
  write(out_folder + "/out.npy", result.out);
  write(out_folder + "/attn_weights.npy", result.attn_weights);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: run_multi_head_attention IN.safetensors OUT_FOLDER\n", stderr);
    return 2;
  }
  try {
    run(argv[1], argv[2]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "run_multi_head_attention: %s\n", error.what());
    return 1;
  }
}
