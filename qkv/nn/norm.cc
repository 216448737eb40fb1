#include "qkv/nn/norm.h"

#include <array>
#include <cmath>
#include <string>

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

// Sum of term(d) for d in 0 .. dim-1, in several running sums so that the additions need not wait for each other.
template <class Term>
double sum(Index dim, const Term& term) {
  constexpr Index kLanes = 8;
  std::array<double, kLanes> lanes{};
  const Index whole = dim - dim % kLanes;
  for (Index d = 0; d < whole; d += kLanes)
    for (Index lane = 0; lane < kLanes; ++lane) lanes[lane] += term(d + lane);
  double total = 0;
  for (double lane : lanes) total += lane;
  for (Index d = whole; d < dim; ++d) total += term(d);
  return total;
}

// One row of layer.embed_dim() values; x(d) is value d of the input, in double.
template <class Value>
void normalise(const LayerNorm& layer, const Value& x, float* out) {
  const Index dim = layer.embed_dim();
  const double mean = sum(dim, x) / static_cast<double>(dim);
  const double variance = sum(dim, [&](Index d) { return (x(d) - mean) * (x(d) - mean); }) / static_cast<double>(dim);
  const double inverse = 1 / std::sqrt(variance + layer.eps);
  const float* weight = layer.weight.data();
  const float* bias = layer.bias ? layer.bias->data() : nullptr;
  for (Index d = 0; d < dim; ++d)
    out[d] = static_cast<float>((x(d) - mean) * inverse * weight[d] + (bias ? bias[d] : 0));
}

}  // namespace

Tensor<float, 3> forward(const LayerNorm& layer, CView<3> x, const Run& run) {
  check_input(layer, "x", x);
  Tensor<float, 3> out(x.shape());
  for_each_row(x.shape(0), x.shape(1), run, [&](Index b, Index i) {
    const float* row = x.data() + b * x.stride(0) + i * x.stride(1);
    normalise(
        layer, [=](Index d) { return double{row[d]}; }, out.data() + (b * x.shape(1) + i) * x.shape(2));
  });
  return out;
}

Tensor<float, 3> forward_sum(const LayerNorm& layer, CView<3> x, CView<3> residual, const Run& run) {
  check_input(layer, "x", x);
  check_input(layer, "residual", residual);
  check(x.shape() == residual.shape(), kFunction, "residual.shape", to_string<3>(residual.shape()),
        to_string<3>(x.shape()) + " as of x");
  Tensor<float, 3> out(x.shape());
  for_each_row(x.shape(0), x.shape(1), run, [&](Index b, Index i) {
    const float* row = x.data() + b * x.stride(0) + i * x.stride(1);
    const float* added = residual.data() + b * residual.stride(0) + i * residual.stride(1);
    normalise(
        layer, [=](Index d) { return double{row[d]} + double{added[d]}; },
        out.data() + (b * x.shape(1) + i) * x.shape(2));
  });
  return out;
}

}  // namespace qkv
