#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "qkv/attention/result.h"
#include "qkv/kernels/reference.h"

// The accept rule of docs/contract.md, "Numbers", for float results against the oracle in double:
//   |error| <= 2 * (error of plain float code) + (8 + s) * eps * bound
// s = largest |score| of the row, bound = max |v| for out, 1 for weights, 1 + |lse| for lse, 1 + ln(kv_len) for
// entropy. The error of plain code is the largest in the same row, or of the same (batch, head) where a row has one
// value only.

namespace qkv::test {

inline constexpr double kEpsilon = std::numeric_limits<float>::epsilon() / 2;  // unit roundoff

/// Whether two values agree within `tolerance`; values that are not finite must be of the same kind.
inline bool agrees(double got, double expected, double tolerance) {
  if (std::isnan(expected)) return std::isnan(got);
  if (std::isinf(expected)) return got == expected;
  return std::abs(got - expected) <= tolerance;
}

inline double difference(double a, double b) {
  return std::isfinite(a) && std::isfinite(b) ? std::abs(a - b) : 0;
}

/// Compares one row of values; `plain` may be shared by the caller over more rows.
struct RowCheck {
  std::string where;
  double plain_error = 0;
  double slack = 0;

  void check(const char* what, Index position, double got, double expected) const {
    const double tolerance = 2 * plain_error + slack;
    EXPECT_TRUE(agrees(got, expected, tolerance)) << what << where << " [" << position << "]: got " << got
                                                  << ", expected " << expected << ", tolerance " << tolerance;
  }
};

/// What the oracle says of a call: the truth, and how far honest float code strays from it.
struct Oracle {
  explicit Oracle(const kernels::AttentionArgs<float>& args)
      : truth(kernels::attention_reference<double>(args)),
        plain(kernels::attention_reference<float>(args, kernels::KeyOrder::kReverse)) {}

  kernels::ReferenceResult<double> truth;
  kernels::ReferenceResult<float> plain;
};

/// Checks every tensor of `got` that is not empty.
inline void expect_accepted(const AttentionResult& got, const Oracle& oracle, const kernels::AttentionArgs<float>& args,
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
        const double unit = (8 + truth.score_magnitude(b, h, i)) * kEpsilon;
        RowCheck row{" of " + name + " at b=" + std::to_string(b) + " h=" + std::to_string(h) +
                     " i=" + std::to_string(i)};
        row.slack = unit * largest_value;
        for (Index d = 0; d < args.v_head_dim(); ++d)
          row.plain_error = std::max(row.plain_error, difference(plain.out(b, h, i, d), truth.out(b, h, i, d)));
        for (Index d = 0; d < args.v_head_dim(); ++d) row.check("out", d, got.out(b, h, i, d), truth.out(b, h, i, d));
        if (!got.lse.empty()) {
          const double lse = truth.lse(b, h, i);
          row.plain_error = lse_error;
          row.slack = unit * (1 + (std::isfinite(lse) ? std::abs(lse) : 0));
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
