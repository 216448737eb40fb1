#include "qkv/nn/embedding.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "qkv/nn/rows.h"

namespace qkv {

namespace {

void check_tokens(const Embedding& layer, TensorView<const std::int32_t, 2> tokens) {
  for (Index b = 0; b < tokens.shape(0); ++b) {
    for (Index i = 0; i < tokens.shape(1); ++i) {
      const Index token = tokens(b, i);
      if (token >= 0 && token < layer.vocab_size()) continue;
      throw std::out_of_range("embedding: token at [" + std::to_string(b) + ", " + std::to_string(i) + "]: got " +
                              std::to_string(token) +
                              ", expected 0 <= token < vocab_size = " + std::to_string(layer.vocab_size()));
    }
  }
}

}  // namespace

Tensor<float, 3> forward(const Embedding& layer, TensorView<const std::int32_t, 2> tokens, const Run& run) {
  check_tokens(layer, tokens);
  const Index embed_dim = layer.embed_dim();
  Tensor<float, 3> out({tokens.shape(0), tokens.shape(1), embed_dim});
  for_each_row(tokens.shape(0), tokens.shape(1), run, [&](Index b, Index i) {
    const float* row = layer.weight.data() + tokens(b, i) * embed_dim;
    std::copy_n(row, embed_dim, out.data() + (b * tokens.shape(1) + i) * embed_dim);
  });
  return out;
}

}  // namespace qkv
