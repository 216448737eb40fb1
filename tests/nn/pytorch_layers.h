#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "nn/layer_support.h"
#include "qkv/io/safetensors.h"

// Layers of golden files (tests/goldens/make_goldens.py) out of the tensors of PyTorch's modules.

namespace qkv::test {

/// What true says in a mask of PyTorch: "ignore" to nn.MultiheadAttention, "may attend" to
/// scaled_dot_product_attention.
enum class MaskMeaning { kHide, kKeep };

/// One case of a golden file: the tensors whose names begin with "case.".
class GoldenCase {
 public:
  GoldenCase(const SafetensorsFile& file, const std::string& name) : file_(file), prefix_(name + ".") {}

  bool contains(const std::string& name) const { return file_.contains(prefix_ + name); }

  /// Missing leading axes read as 1.
  template <int Rank>
  Tensor<float, Rank> tensor(const std::string& name) const {
    const TensorValues<float> stored = file_.load_f32(prefix_ + name);
    Shape<Rank> shape;
    shape.fill(1);
    std::copy(stored.shape.begin(), stored.shape.end(), shape.end() - static_cast<Index>(stored.shape.size()));
    Tensor<float, Rank> result(shape);
    std::copy_n(stored.values.data(), stored.values.size(), result.data());
    return result;
  }

  /// A mask whose true means `meaning`, as ours (true = may attend).
  Tensor<bool, 4> mask(const std::string& name, const Shape<4>& shape, MaskMeaning meaning) const {
    const TensorValues<bool> stored = file_.load_bool(prefix_ + name);
    Tensor<bool, 4> keep(shape);
    EXPECT_EQ(keep.size(), stored.values.size());
    for (Index n = 0; n < keep.size(); ++n) keep.data()[n] = stored.values.data()[n] == (meaning == MaskMeaning::kKeep);
    return keep;
  }

  Linear linear(const std::string& name) const {
    Linear layer{.weight = tensor<2>(name + ".weight")};
    if (contains(name + ".bias")) layer.bias = tensor<1>(name + ".bias");
    return layer;
  }

  LayerNorm norm(const std::string& name) const {
    return {.weight = tensor<1>(name + ".weight"), .bias = tensor<1>(name + ".bias")};
  }

  /// nn.MultiheadAttention: in_proj_weight holds q, k and v one below the other, or each has a name of its own.
  MultiHeadAttention attention(const std::string& prefix, Index num_heads) const {
    MultiHeadAttention layer{.q_proj = projection(prefix, "q", 0),
                             .k_proj = projection(prefix, "k", 1),
                             .v_proj = projection(prefix, "v", 2),
                             .out_proj = linear(prefix + "out_proj"),
                             .num_heads = num_heads};
    return layer;
  }

 private:
  Linear projection(const std::string& prefix, const std::string& name, Index place) const {
    Linear layer;
    if (contains(prefix + "in_proj_weight"))
      layer.weight = third(tensor<2>(prefix + "in_proj_weight"), place);
    else
      layer.weight = tensor<2>(prefix + name + "_proj_weight");
    if (contains(prefix + "in_proj_bias")) layer.bias = third(tensor<1>(prefix + "in_proj_bias"), place);
    return layer;
  }

  template <int Rank>
  static Tensor<float, Rank> third(const Tensor<float, Rank>& packed, Index place) {
    Shape<Rank> shape = packed.shape();
    shape[0] /= 3;
    Tensor<float, Rank> result(shape);
    std::copy_n(packed.data() + place * result.size(), result.size(), result.data());
    return result;
  }

  const SafetensorsFile& file_;
  std::string prefix_;
};

}  // namespace qkv::test
