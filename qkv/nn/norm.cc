#include "qkv/nn/norm.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "qkv/kernels/layer_norm.h"
#include "qkv/nn/rows.h"

namespace qkv {

namespace {

constexpr const char* kFunction = "layer_norm";

void check_input(const LayerNorm& layer, const char* name, CView<3> x) {
  const std::string prefix = name;
  check(layer.embed_dim() >= 1, kFunction, "weight.shape[0] (embed_dim)", layer.embed_dim(), ">= 1");
  check(std::isfinite(layer.eps) && layer.eps >= 0, kFunction, "eps", layer.eps, "a finite number >= 0");
  if (layer.bias)
    check(layer.bias->shape(0) == layer.embed_dim(), kFunction, "bias.shape[0] (embed_dim)", layer.bias->shape(0),
          std::to_string(layer.embed_dim()) + " as in weight");
  check(x.shape(2) == layer.embed_dim(), kFunction, prefix + ".shape[2] (embed_dim)", x.shape(2),
        std::to_string(layer.embed_dim()) + " as in weight");
  if (x.shape(2) > 1) check_equal<Index>(kFunction, prefix + ".stride[2] (last axis)", x.stride(2), 1);
}

// norm(x + residual), or norm(x) where there is none.
Tensor<float, 3> normalise(const LayerNorm& layer, CView<3> x, std::optional<CView<3>> residual, const Run& run) {
  const Index dim = layer.embed_dim();
  Tensor<double, 1> weight({dim}), bias({dim}, 0);
  std::copy_n(layer.weight.data(), dim, weight.data());
  if (layer.bias) std::copy_n(layer.bias->data(), dim, bias.data());
  const kernels::LayerNormArgs args{.weight = weight.data(), .bias = bias.data(), .dim = dim, .eps = layer.eps};
  Tensor<float, 3> out(x.shape());
  for_each_row(x.shape(0), x.shape(1), run, [&](Index b, Index i) {
    const auto row = [&](const auto& view) { return view.data() + b * view.stride(0) + i * view.stride(1); };
    kernels::layer_norm_row(args, row(x), residual ? row(*residual) : nullptr, row(out.view()));
  });
  return out;
}

}  // namespace

Tensor<float, 3> forward(const LayerNorm& layer, CView<3> x, const Run& run) {
  check_input(layer, "x", x);
  return normalise(layer, x, std::nullopt, run);
}

Tensor<float, 3> forward_sum(const LayerNorm& layer, CView<3> x, CView<3> residual, const Run& run) {
  check_input(layer, "x", x);
  check_input(layer, "residual", residual);
  check(x.shape() == residual.shape(), kFunction, "residual.shape", to_string<3>(residual.shape()),
        to_string<3>(x.shape()) + " as of x");
  return normalise(layer, x, residual, run);
}

}  // namespace qkv
