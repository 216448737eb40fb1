#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

#include "qkv/attention/result.h"
#include "qkv/kernels/reference.h"

// The accept rule of docs/contract.md, "Numbers", for float results against the oracle in double, and double ones against long double:
//   |error| <= 2 * (error of plain code) + (8 + s) * eps * bound
// s = largest |score| of the row, bound = max |v| for out, 1 for weights, 1 + |lse| for lse, 1 + ln(kv_len) for
// entropy. The error of plain code is the largest in the same row, or of the same (batch, head) where a row has one
// value only.

namespace qkv::test {

/// What the truth about a T is computed in.
template <class T>
using Truth = std::conditional_t<std::is_same_v<T, float>, double, long double>;

/// Unit roundoff.
template <class T>
inline constexpr double kEpsilon = std::numeric_limits<T>::epsilon() / 2;

/// Whether two values agree within `tolerance`; values that are not finite must be of the same kind.
template <class T>
bool agrees(T got, Truth<T> expected, double tolerance) {
  if (std::isnan(expected)) return std::isnan(got);
  if (std::isinf(expected)) return got == expected;
  return std::abs(got - expected) <= tolerance;
}

template <class T>
double difference(T a, Truth<T> b) {
  return std::isfinite(a) && std::isfinite(b) ? static_cast<double>(std::abs(a - b)) : 0;
}

/// Compares one row of values; `plain` may be shared by the caller over more rows.
struct RowCheck {
  std::string where;
  double plain_error = 0;
  double slack = 0;

  template <class T>
  void check(const char* what, Index position, T got, Truth<T> expected) const {
    const double tolerance = 2 * plain_error + slack;
    EXPECT_TRUE(agrees(got, expected, tolerance)) << what << where << " [" << position << "]: got " << got
                                                  << ", expected " << expected << ", tolerance " << tolerance;
  }
};

/// What the oracle says of a call: the truth, and how far honest plain code strays from it.
template <class T>
struct Oracle {
  explicit Oracle(const kernels::AttentionArgs<T>& args)
      : truth(kernels::attention_reference<Truth<T>>(args)),
        plain(kernels::attention_reference<T>(args, kernels::KeyOrder::kReverse)) {}

  kernels::ReferenceResult<Truth<T>> truth;
  kernels::ReferenceResult<T> plain;
};

/// Checks every tensor of `got` that is not empty.
template <class T>
void expect_accepted(const BasicAttentionResult<T>& got, const Oracle<T>& oracle, const kernels::AttentionArgs<T>& args,
                     const std::string& name) {
  const auto& [truth, plain] = oracle;
  double lse_error = 0, entropy_error = 0;
  for (Index n = 0; n < truth.lse.size(); ++n) {
    lse_error = std::max(lse_error, difference(plain.lse.data()[n], truth.lse.data()[n]));
    entropy_error = std::max(entropy_error, difference(plain.entropy.data()[n], truth.entropy.data()[n]));
  }
  for (Index b = 0; b < args.batch(); ++b) {
    for (Index h = 0; h < args.num_heads(); ++h) {
      double largest_value = 0;
      for (Index j = 0; j < args.kv_len(); ++j)
        for (Index d = 0; d < args.v_head_dim(); ++d) {
          const double v = std::abs(args.v(b, h / args.group_size(), j, d));
          if (std::isfinite(v)) largest_value = std::max(largest_value, v);
        }
      for (Index i = 0; i < args.q_len(); ++i) {
        const double unit = (8 + static_cast<double>(truth.score_magnitude(b, h, i))) * kEpsilon<T>;
        RowCheck row{" of " + name + " at b=" + std::to_string(b) + " h=" + std::to_string(h) +
                     " i=" + std::to_string(i)};
        row.slack = unit * largest_value;
        for (Index d = 0; d < args.v_head_dim(); ++d)
          row.plain_error = std::max(row.plain_error, difference(plain.out(b, h, i, d), truth.out(b, h, i, d)));
        for (Index d = 0; d < args.v_head_dim(); ++d) row.check("out", d, got.out(b, h, i, d), truth.out(b, h, i, d));
        if (!got.lse.empty()) {
          const Truth<T> lse = truth.lse(b, h, i);
          row.plain_error = lse_error;
          row.slack = unit * (1 + (std::isfinite(lse) ? static_cast<double>(std::abs(lse)) : 0));
          row.check("lse", 0, got.lse(b, h, i), lse);
        }
        if (!got.entropy.empty()) {
          row.plain_error = entropy_error;
          row.slack = unit * (1 + std::log(static_cast<double>(std::max<Index>(1, args.kv_len()))));
          row.check("entropy", 0, got.entropy(b, h, i), truth.entropy(b, h, i));
        }
        if (got.attn_weights.empty()) continue;
        row.plain_error = 0;
        row.slack = unit;
        for (Index j = 0; j < args.kv_len(); ++j)
          row.plain_error =
              std::max(row.plain_error, difference(plain.attn_weights(b, h, i, j), truth.attn_weights(b, h, i, j)));
        for (Index j = 0; j < args.kv_len(); ++j)
          row.check("attn_weights", j, got.attn_weights(b, h, i, j), truth.attn_weights(b, h, i, j));
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

}  // namespace qkv::test
