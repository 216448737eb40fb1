#include "qkv/eigen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <type_traits>

#include "qkv/attention/attention.h"
#include "qkv/nn/multi_head_attention.h"

namespace qkv::test {
namespace {

using Eigen::MatrixXd;
using Eigen::MatrixXf;

// Softmax of each column, in double.
MatrixXd softmax_of_columns(const MatrixXd& scores) {
  MatrixXd weights = (scores.rowwise() - scores.colwise().maxCoeff()).array().exp();
  for (auto column : weights.colwise()) column /= column.sum();
  return weights;
}

// O = V softmax(K^T Q), in double.
MatrixXd formula(const MatrixXf& q, const MatrixXf& k, const MatrixXf& v) {
  const MatrixXd wide_q = q.cast<double>(), wide_k = k.cast<double>(), wide_v = v.cast<double>();
  return wide_v * softmax_of_columns(wide_k.transpose() * wide_q);
}

// The same numbers on every machine, which Eigen's Random() is not.
MatrixXf numbers(Index rows, Index columns, double phase) {
  return MatrixXf::NullaryExpr(rows, columns, [phase](Index i, Index j) {
    return static_cast<float>(std::sin(phase + 1.7 * static_cast<double>(i) + 0.61 * static_cast<double>(j * j)));
  });
}

View<4> out_view(View<2> out) {
  return out;
}

TEST(ColumnsAsRows, SharesTheMemoryOfAMatrix) {
  MatrixXf x = numbers(3, 5, 0);
  const auto view = columns_as_rows(x);
  static_assert(std::is_same_v<decltype(view), const View<2>>);
  EXPECT_EQ(view.data(), x.data());
  EXPECT_EQ(view.shape(), (Shape<2>{5, 3}));
  for (Index i = 0; i < 5; ++i)
    for (Index d = 0; d < 3; ++d) EXPECT_EQ(view(i, d), x(d, i));
  view(4, 1) = 7;
  EXPECT_EQ(x(1, 4), 7);
}

TEST(ColumnsAsRows, OfConstMatricesCannotBeChanged) {
  const MatrixXf x = numbers(3, 5, 0);
  static_assert(std::is_same_v<decltype(columns_as_rows(x)), CView<2>>);
  const Eigen::Map<const MatrixXf> map(x.data(), 3, 5);
  static_assert(std::is_same_v<decltype(columns_as_rows(map)), CView<2>>);
  EXPECT_EQ(columns_as_rows(map).data(), x.data());
}

TEST(ColumnsAsRows, ReadsBlocksMapsRefsAndFixedSizes) {
  MatrixXf x = numbers(6, 8, 1);
  const auto rows = columns_as_rows(x.middleRows(2, 3));
  EXPECT_EQ(rows.shape(), (Shape<2>{8, 3}));
  EXPECT_EQ(rows(7, 2), x(4, 7));
  const auto some = columns_as_rows(x.block(1, 3, 4, 2));
  EXPECT_EQ(some.shape(), (Shape<2>{2, 4}));
  EXPECT_EQ(some(1, 3), x(4, 4));
  const Eigen::Map<MatrixXf, 0, Eigen::OuterStride<>> apart(x.data(), 6, 4, Eigen::OuterStride<>(12));
  EXPECT_EQ(columns_as_rows(apart)(3, 5), x(5, 6));
  const Eigen::Ref<const MatrixXf> ref = x.leftCols(3);
  EXPECT_EQ(columns_as_rows(ref)(2, 5), x(5, 2));
  const Eigen::Matrix<float, 2, 3> fixed = x.topLeftCorner(2, 3);
  EXPECT_EQ(columns_as_rows(fixed)(2, 1), x(1, 2));
}

TEST(ColumnsAsRows, GiveAttentionOfColumnVectorsWithoutACopy) {
  const MatrixXf q = numbers(4, 9, 0), k = numbers(4, 13, 2), v = numbers(6, 13, 5);
  MatrixXf out(6, 9);
  Workspace workspace;
  attention_into(out_view(columns_as_rows(out)), columns_as_rows(q), columns_as_rows(k), columns_as_rows(v),
                 {.scale = 1.0}, workspace);
  EXPECT_LE((out.cast<double>() - formula(q, k, v)).cwiseAbs().maxCoeff(), 1e-6);
}

TEST(ColumnsAsRows, WriteTheHeadsOfAStackedOutput) {
  const MatrixXf q = numbers(8, 7, 0), k = numbers(8, 7, 2), v = numbers(10, 7, 5);
  MatrixXf out(10, 7);
  Workspace workspace;
  for (Index h = 0; h < 2; ++h)
    attention_into(out_view(columns_as_rows(out.middleRows(5 * h, 5))), columns_as_rows(q.middleRows(4 * h, 4)),
                   columns_as_rows(k.middleRows(4 * h, 4)), columns_as_rows(v.middleRows(5 * h, 5)), {.scale = 1.0},
                   workspace);
  for (Index h = 0; h < 2; ++h) {
    const MatrixXd expected = formula(q.middleRows(4 * h, 4), k.middleRows(4 * h, 4), v.middleRows(5 * h, 5));
    EXPECT_LE((out.middleRows(5 * h, 5).cast<double>() - expected).cwiseAbs().maxCoeff(), 1e-6);
  }
}

TEST(ColumnsAsRows, FeedALayer) {
  const MatrixXf input = numbers(5, 6, 3);
  Linear projection{.weight = Tensor<float, 2>({4, 5})};
  const MatrixXf w = numbers(4, 5, 1);
  for (Index o = 0; o < 4; ++o)
    for (Index d = 0; d < 5; ++d) projection.weight(o, d) = w(o, d);
  const auto copy = [&] { return Linear{.weight = projection.weight.copy()}; };
  const MultiHeadAttention layer{.q_proj = copy(), .k_proj = copy(), .v_proj = copy()};
  const CView<3> x = columns_as_rows(input);
  const auto got = forward(layer, x, x, x, {.scale = 1.0});
  const MatrixXf projected = w * input;
  const MatrixXd expected = formula(projected, projected, projected);
  for (Index i = 0; i < 6; ++i)
    for (Index d = 0; d < 4; ++d) EXPECT_NEAR(got.out(0, i, d), expected(d, i), 5e-6);
}

TEST(ColumnsAsRows, LeavesStridesInsideAColumnToTheChecksOfAttention) {
  const MatrixXf x = numbers(4, 3, 0);
  const Eigen::Map<const MatrixXf, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>> every_other(
      x.data(), 2, 3, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>(4, 2));
  const CView<2> view = columns_as_rows(every_other);
  EXPECT_EQ(view(2, 1), x(2, 2));
  EXPECT_THAT([&] { attention(view, view, view); },
              testing::ThrowsMessage<std::invalid_argument>(testing::HasSubstr("q.stride[3] (last axis): got 2")));
}

}  // namespace
}  // namespace qkv::test
