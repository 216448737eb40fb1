#include "qkv/attention/merge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "qkv/core/check.h"

namespace qkv {
namespace {

constexpr const char* kFunction = "merge";

void check_parts(std::span<const AttentionResult> parts) {
  if (parts.empty()) throw_invalid(kFunction, "parts", "none", "at least one");
  const Shape<4> shape = parts[0].out.shape();
  const Shape<3> rows{shape[0], shape[1], shape[2]};
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const auto name = [&](const char* field) { return "parts[" + std::to_string(p) + "]." + field + ".shape"; };
    if (parts[p].out.shape() != shape)
      throw_invalid(kFunction, name("out"), to_string<4>(parts[p].out.shape()), to_string<4>(shape));
    if (parts[p].lse.shape() != rows)
      throw_invalid(kFunction, name("lse"), to_string<3>(parts[p].lse.shape()), to_string<3>(rows));
  }
}

// Row n of the result; `sums` is scratch of v_head_dim doubles.
void merge_row(std::span<const AttentionResult> parts, Index n, std::vector<double>& sums, AttentionResult& result) {
  constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
  const auto width = static_cast<Index>(sums.size());
  float largest = kMinusInfinity;
  for (const AttentionResult& part : parts) {
    const float lse = part.lse.data()[n];
    if (std::isnan(lse) || lse > largest) largest = lse;
  }
  result.lse.data()[n] = largest;
  if (largest == kMinusInfinity) return;
  std::fill(sums.begin(), sums.end(), 0.0);
  double total = 0;
  for (const AttentionResult& part : parts) {
    const float lse = part.lse.data()[n];
    if (lse == kMinusInfinity) continue;
    const double share = std::exp(static_cast<double>(lse) - static_cast<double>(largest));
    total += share;
    const float* const row = part.out.data() + n * width;
    for (Index d = 0; d < width; ++d) sums[static_cast<std::size_t>(d)] += share * static_cast<double>(row[d]);
  }
  for (Index d = 0; d < width; ++d)
    result.out.data()[n * width + d] = static_cast<float>(sums[static_cast<std::size_t>(d)] / total);
  result.lse.data()[n] = static_cast<float>(static_cast<double>(largest) + std::log(total));
}

}  // namespace

AttentionResult merge(std::span<const AttentionResult> parts) {
  check_parts(parts);
  AttentionResult result;
  result.out = Tensor<float, 4>(parts[0].out.shape(), 0.0f);
  result.lse = Tensor<float, 3>(parts[0].lse.shape(), 0.0f);
  std::vector<double> sums(static_cast<std::size_t>(result.out.shape(3)));
  for (Index n = 0; n < result.lse.size(); ++n) merge_row(parts, n, sums, result);
  return result;
}

}  // namespace qkv
