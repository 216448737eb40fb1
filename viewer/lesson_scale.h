#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "qkv/core/executor.h"
#include "qkv/core/tensor.h"
#include "viewer/lesson.h"

namespace qkv::viewer {

// The lesson on why scores are divided by sqrt(d_k), the width of a head, which is head_dim in our words. Random queries
// and keys, all components normal with mean 0 and variance 1, go through qkv's own attention with and without the
// division.

/// Which random numbers, and how many. The same seed gives the same lesson, whatever the number of threads.
struct ScaleOptions {
  std::uint64_t seed = 1;
  std::vector<Index> head_dims = {4, 16, 64, 256, 1024};
  Index num_pairs = 4000;                             ///< pairs of a query and a key for each variance
  Index batch = 32, num_queries = 64, num_keys = 64;  ///< softmax: batch * num_queries rows over num_keys keys
  Executor* executor = nullptr;                       ///< null: default_executor()
};

/// How far the scores of random pairs of one width spread.
struct ScoreVariance {
  Index head_dim = 0;
  double undivided = 0;  ///< variance of q.k; theory: head_dim
  double divided = 0;    ///< variance of q.k / sqrt(head_dim); theory: 1
  /// Standard error of either, as a part of what theory says: sqrt((2 + 6 / head_dim) / num_pairs).
  double relative_error = 0;
};

/// What softmax makes of rows of scores: means over the rows, but for the median.
struct SoftmaxStats {
  double largest_weight = 0;
  double entropy = 0;  ///< nats
  /// Size of the derivative of a row of weights w by its scores s: the sum over i and j of |dw_i/ds_j|, which is
  /// 2 (1 - sum_i w_i^2). From 0 (one key has all the weight) to 2 (1 - 1 / num_keys) (all weights are equal). Not the
  /// Frobenius norm: that one is small for equal weights too, so it cannot tell them from saturation.
  double gradient = 0;
  double median_gradient = 0;
};

struct Saturation {
  Index head_dim = 0;
  SoftmaxStats undivided, divided;
};

struct ScaleLesson {
  ScaleOptions options;
  std::vector<ScoreVariance> variances;  ///< one for each of options.head_dims
  std::vector<Saturation> saturations;   ///< the same
};

/// Measures all of it. Errors: std::invalid_argument for a width or a number that is not positive, no width at all, or
///   fewer than two pairs.
ScaleLesson measure_scale(const ScaleOptions& options = {});

/// What the numbers say of the tutorial's three claims.
std::vector<Claim> claims_of(const ScaleLesson& lesson);

/// scale * q_i . k_i for each i, as the attention kernel computes it: the log-sum-exp of a row with a single key is its
/// score. scale absent: 1 / sqrt(head_dim). Shapes: q and k [pairs, head_dim], packed. Returns [pairs].
std::vector<float> scores_of_pairs(CView<2> q, CView<2> k, std::optional<double> scale, Executor* executor = nullptr);

/// Shapes: q [batch, num_queries, head_dim], k [batch, num_keys, head_dim]; scale as in scores_of_pairs.
SoftmaxStats softmax_stats(CView<3> q, CView<3> k, std::optional<double> scale, Executor* executor = nullptr);

/// Sum over i and j of |dw_i/ds_j| for w = softmax(s). Shape: attn_weights [num_keys].
double softmax_gradient(CView<1> attn_weights);

}  // namespace qkv::viewer
