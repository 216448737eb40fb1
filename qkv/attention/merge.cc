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

template <class T>
void check_parts(std::span<const BasicAttentionResult<T>> parts) {
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
template <class T>
void merge_row(std::span<const BasicAttentionResult<T>> parts, Index n, std::vector<double>& sums,
               BasicAttentionResult<T>& result) {
  constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();
  const auto width = static_cast<Index>(sums.size());
  T largest = kMinusInfinity;
  for (const BasicAttentionResult<T>& part : parts) {
    const T lse = part.lse.data()[n];
    if (std::isnan(lse) || lse > largest) largest = lse;
  }
  result.lse.data()[n] = largest;
  if (largest == kMinusInfinity) return;
  std::fill(sums.begin(), sums.end(), 0.0);
  double total = 0;
  for (const BasicAttentionResult<T>& part : parts) {
    const T lse = part.lse.data()[n];
    if (lse == kMinusInfinity) continue;
    const double share = std::exp(static_cast<double>(lse) - static_cast<double>(largest));
    total += share;
    const T* const row = part.out.data() + n * width;
    for (Index d = 0; d < width; ++d) sums[static_cast<std::size_t>(d)] += share * static_cast<double>(row[d]);
  }
  for (Index d = 0; d < width; ++d)
    result.out.data()[n * width + d] = static_cast<T>(sums[static_cast<std::size_t>(d)] / total);
  result.lse.data()[n] = static_cast<T>(static_cast<double>(largest) + std::log(total));
}

template <class T>
BasicAttentionResult<T> merge_parts(std::span<const BasicAttentionResult<T>> parts) {
  check_parts(parts);
  BasicAttentionResult<T> result;
  result.out = Tensor<T, 4>(parts[0].out.shape(), T{0});
  result.lse = Tensor<T, 3>(parts[0].lse.shape(), T{0});
  std::vector<double> sums(static_cast<std::size_t>(result.out.shape(3)));
  for (Index n = 0; n < result.lse.size(); ++n) merge_row(parts, n, sums, result);
  return result;
}

}  // namespace

AttentionResult merge(std::span<const AttentionResult> parts) {
  return merge_parts(parts);
}

BasicAttentionResult<double> merge(std::span<const BasicAttentionResult<double>> parts) {
  return merge_parts(parts);
}

}  // namespace qkv
