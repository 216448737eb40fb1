#include "viewer/lesson_scale.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "qkv/attention/attention.h"
#include "qkv/core/check.h"
#include "qkv/core/random.h"
#include "viewer/display_text.h"

namespace qkv::viewer {
namespace {

// Box and Muller: two uniform numbers make two normal ones.
template <int Rank>
Tensor<float, Rank> normal_tensor(const Shape<Rank>& shape, RandomStream& random) {
  Tensor<float, Rank> result(shape);
  for (Index n = 0; n < result.size(); n += 2) {
    const float radius = std::sqrt(-2 * std::log(1 - random.uniform()));  // 1 - u is never 0
    const float angle = 2 * std::numbers::pi_v<float> * random.uniform();
    result.data()[n] = radius * std::cos(angle);
    if (n + 1 < result.size()) result.data()[n + 1] = radius * std::sin(angle);
  }
  return result;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

double variance_of(const std::vector<float>& values) {
  const double mean = mean_of({values.begin(), values.end()});
  double sum = 0;
  for (float value : values) sum += (value - mean) * (value - mean);
  return sum / static_cast<double>(values.size() - 1);
}

// Every width has numbers of its own, the same whichever other widths there are.
RandomStream stream_of(const ScaleOptions& options, Index head_dim, std::uint64_t part) {
  return RandomStream(options.seed, 2 * static_cast<std::uint64_t>(head_dim) + part);
}

ScoreVariance measure_variance(const ScaleOptions& options, Index head_dim) {
  RandomStream random = stream_of(options, head_dim, 0);
  const auto q = normal_tensor<2>({options.num_pairs, head_dim}, random);
  const auto k = normal_tensor<2>({options.num_pairs, head_dim}, random);
  // Given q, q.k is normal with variance |q|^2; so the square of q.k has the variance 2 head_dim^2 + 6 head_dim.
  const double relative_variance = 2 + 6 / static_cast<double>(head_dim);
  return {.head_dim = head_dim,
          .undivided = variance_of(scores_of_pairs(q, k, 1.0, options.executor)),
          .divided = variance_of(scores_of_pairs(q, k, std::nullopt, options.executor)),
          .relative_error = std::sqrt(relative_variance / static_cast<double>(options.num_pairs))};
}

Saturation measure_saturation(const ScaleOptions& options, Index head_dim) {
  RandomStream random = stream_of(options, head_dim, 1);
  const auto q = normal_tensor<3>({options.batch, options.num_queries, head_dim}, random);
  const auto k = normal_tensor<3>({options.batch, options.num_keys, head_dim}, random);
  return {.head_dim = head_dim,
          .undivided = softmax_stats(q, k, 1.0, options.executor),
          .divided = softmax_stats(q, k, std::nullopt, options.executor)};
}

std::string at_width(Index head_dim) {
  return "at d_k = " + std::to_string(head_dim);
}

// Over all widths, with the division.
struct Range {
  double least = 0, most = 0;

  std::string text() const { return range_text(number_text(least), number_text(most)); }
};

Range range_of(const ScaleLesson& lesson, double SoftmaxStats::*member) {
  Range range{lesson.saturations.front().divided.*member, lesson.saturations.front().divided.*member};
  for (const Saturation& row : lesson.saturations) {
    range.least = std::min(range.least, row.divided.*member);
    range.most = std::max(range.most, row.divided.*member);
  }
  return range;
}

Claim variance_claim(const ScaleLesson& lesson) {
  constexpr int kMostErrors = 4;  // chance alone breaks this in less than one lesson of a thousand
  Claim claim{.claim = "The dot product of random vectors has variance d_k, and the division brings it back to 1"};
  std::string strays;
  double worst = 0;
  for (const ScoreVariance& row : lesson.variances) {
    const auto expected = static_cast<double>(row.head_dim);
    const double errors =
        std::max(std::abs(row.undivided / expected - 1), std::abs(row.divided - 1)) / row.relative_error;
    worst = std::max(worst, errors);
    if (errors <= kMostErrors) continue;
    strays += (strays.empty() ? "" : "; ") + at_width(row.head_dim) + " it is " + number_text(row.undivided) +
              ", divided " + number_text(row.divided);
  }
  claim.holds = strays.empty();
  claim.evidence = claim.holds
                       ? "every measured variance is within " + number_text(worst) +
                             " standard errors of what theory expects (" + std::to_string(kMostErrors) + " are allowed)"
                       : strays + ": more than " + std::to_string(kMostErrors) + " standard errors away";
  return claim;
}

Claim saturation_claim(const ScaleLesson& lesson) {
  constexpr double kSaturated = 0.9, kMostChange = 0.05;
  const Saturation &first = lesson.saturations.front(), &last = lesson.saturations.back();
  const Range divided = range_of(lesson, &SoftmaxStats::largest_weight);
  const double before = first.undivided.largest_weight, after = last.undivided.largest_weight;
  Claim claim{.claim = "Without the division softmax saturates as d_k grows"};
  claim.holds = after >= kSaturated && after > before && divided.most - divided.least <= kMostChange;
  claim.evidence = "without it the largest of " + std::to_string(lesson.options.num_keys) + " weights goes from " +
                   number_text(before) + " " + at_width(first.head_dim) + " to " + number_text(after) + " " +
                   at_width(last.head_dim) + " (saturated: " + number_text(kSaturated) +
                   " or more), the entropy from " + number_text(first.undivided.entropy) + " to " +
                   number_text(last.undivided.entropy) + "; with it the largest weight is " + divided.text() +
                   " at every d_k";
  return claim;
}

Claim gradient_claim(const ScaleLesson& lesson) {
  constexpr double kVanished = 0.1;
  const Saturation &first = lesson.saturations.front(), &last = lesson.saturations.back();
  const Range divided = range_of(lesson, &SoftmaxStats::gradient);
  Claim claim{.claim = "Without the division the gradient of softmax vanishes"};
  claim.holds =
      last.undivided.gradient < kVanished * last.divided.gradient && last.undivided.gradient < first.undivided.gradient;
  claim.evidence = "without it the gradient goes from " + number_text(first.undivided.gradient) + " to " +
                   number_text(last.undivided.gradient) + " " + at_width(last.head_dim) + ", " +
                   percent_text(last.undivided.gradient / last.divided.gradient) +
                   " of what it is with the division (vanished: less than " + percent_text(kVanished) +
                   "), and half of the rows have less than " + number_text(last.undivided.median_gradient) +
                   "; with it the gradient is " + divided.text() + " at every d_k";
  return claim;
}

}  // namespace

std::vector<float> scores_of_pairs(CView<2> q, CView<2> k, std::optional<double> scale, Executor* executor) {
  const Index num_pairs = q.shape(0);
  check_equal("scores_of_pairs", "k.shape", k.shape() == q.shape() && q.is_packed() && k.is_packed(), true);
  const Tensor<float, 4> v({num_pairs, 1, 1, 1}, 1);
  const Shape<4> one_each{num_pairs, 1, 1, q.shape(1)};
  const auto result = attention(CView<4>(q.data(), one_each), CView<4>(k.data(), one_each), v,
                                {.scale = scale, .observe = {.lse = true}, .executor = executor});
  return {result.lse.data(), result.lse.data() + num_pairs};
}

double softmax_gradient(CView<1> attn_weights) {
  // dw_i/ds_j = w_i (delta_ij - w_j): the diagonal gives sum_i w_i (1 - w_i), and so does everything else.
  double sum = 0;
  for (Index i = 0; i < attn_weights.shape(0); ++i) {
    const double weight = attn_weights(i);
    sum += 2 * weight * (1 - weight);
  }
  return sum;
}

SoftmaxStats softmax_stats(CView<3> q, CView<3> k, std::optional<double> scale, Executor* executor) {
  const auto result =
      attention(q.split_axis(1, q.shape(1)), k.split_axis(1, k.shape(1)), k.split_axis(1, k.shape(1)),
                {.scale = scale, .observe = {.entropy = true, .attn_weights = true}, .executor = executor});
  std::vector<double> largest, entropies, gradients;
  for (Index b = 0; b < q.shape(0); ++b) {
    for (Index i = 0; i < q.shape(1); ++i) {
      const CView<1> row = result.attn_weights.view().select(0, b).select(0, 0).select(0, i);
      largest.push_back(*std::max_element(row.data(), row.data() + row.shape(0)));
      entropies.push_back(result.entropy(b, 0, i));
      gradients.push_back(softmax_gradient(row));
    }
  }
  return {.largest_weight = mean_of(largest),
          .entropy = mean_of(entropies),
          .gradient = mean_of(gradients),
          .median_gradient = median_of(gradients)};
}

ScaleLesson measure_scale(const ScaleOptions& options) {
  constexpr const char* kFunction = "measure_scale";
  check(!options.head_dims.empty(), kFunction, "head_dims", options.head_dims.size(), "at least one");
  for (Index head_dim : options.head_dims) check(head_dim > 0, kFunction, "head_dim", head_dim, "> 0");
  check(options.num_pairs > 1, kFunction, "num_pairs", options.num_pairs, "> 1");
  const Index num_rows = std::min({options.batch, options.num_queries, options.num_keys});
  check(num_rows > 0, kFunction, "batch, num_queries or num_keys", num_rows, "> 0");
  ScaleLesson lesson{.options = options, .variances = {}, .saturations = {}};
  for (Index head_dim : options.head_dims) {
    lesson.variances.push_back(measure_variance(options, head_dim));
    lesson.saturations.push_back(measure_saturation(options, head_dim));
  }
  return lesson;
}

std::vector<Claim> claims_of(const ScaleLesson& lesson) {
  return {variance_claim(lesson), saturation_claim(lesson), gradient_claim(lesson)};
}

}  // namespace qkv::viewer
