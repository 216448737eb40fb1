#include "qkv/nn/positional.h"

#include <cmath>
#include <string>

#include "qkv/nn/rows.h"

namespace qkv {

PositionalEncoding sinusoidal_positions(Index max_len, Index embed_dim) {
  check(max_len >= 0, "sinusoidal_positions", "max_len", max_len, ">= 0");
  check(embed_dim >= 1, "sinusoidal_positions", "embed_dim", embed_dim, ">= 1");
  constexpr double kBase = 10000;  // wavelengths go from 2 pi to kBase * 2 pi
  PositionalEncoding layer{.weight = Tensor<float, 2>({max_len, embed_dim}), .learned = false};
  for (Index d = 0; d < embed_dim; ++d) {
    const Index even = d - d % 2;
    const double frequency = std::pow(kBase, -static_cast<double>(even) / static_cast<double>(embed_dim));
    for (Index p = 0; p < max_len; ++p) {
      const double angle = static_cast<double>(p) * frequency;
      layer.weight(p, d) = static_cast<float>(d == even ? std::sin(angle) : std::cos(angle));
    }
  }
  return layer;
}

Tensor<float, 3> forward(const PositionalEncoding& layer, CView<3> x, Index q_start, const Run& run) {
  constexpr const char* kFunction = "positional_encoding";
  const Index len = x.shape(1), embed_dim = layer.embed_dim();
  check(x.shape(2) == embed_dim, kFunction, "x.shape[2] (embed_dim)", x.shape(2),
        std::to_string(embed_dim) + " as in weight");
  check(q_start >= 0, kFunction, "q_start", q_start, ">= 0");
  check(q_start <= layer.max_len() && len <= layer.max_len() - q_start, kFunction, "x.shape[1] (len)", len,
        "at most max_len - q_start = " + std::to_string(layer.max_len()) + " - " + std::to_string(q_start));
  Tensor<float, 3> out(x.shape());
  for_each_row(x.shape(0), len, run, [&](Index b, Index i) {
    for (Index d = 0; d < embed_dim; ++d) out(b, i, d) = x(b, i, d) + layer.weight(q_start + i, d);
  });
  return out;
}

}  // namespace qkv
