#include "qkv/core/tensor_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <vector>

#include "qkv/core/tensor.h"

namespace qkv {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<float> counting(Index count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

TEST(TensorView, PacksRowsWhenNoStridesAreGiven) {
  auto values = counting(24);
  const View<3> view(values.data(), {2, 3, 4});
  EXPECT_THAT(view.strides(), ElementsAre(12, 4, 1));
  EXPECT_EQ(view(1, 2, 3), 23);
  EXPECT_TRUE(view.is_packed());
}

TEST(TensorView, SplitsAndSwapsAxesWithoutMovingAnElement) {
  auto values = counting(2 * 3 * 8);
  const View<3> x(values.data(), {2, 3, 8});
  const auto heads = x.split_axis(2, 4).swap_axes(1, 2);  // [batch, heads, len, dim]
  EXPECT_THAT(heads.shape(), ElementsAre(2, 2, 3, 4));
  EXPECT_EQ(&heads(1, 1, 2, 3), &x(1, 2, 7));
  EXPECT_FALSE(heads.is_packed());
}

TEST(TensorView, SlicesAndSelects) {
  auto values = counting(2 * 5);
  const View<2> x(values.data(), {2, 5});
  const auto middle = x.slice(1, 1, 4);
  EXPECT_THAT(middle.shape(), ElementsAre(2, 3));
  EXPECT_EQ(middle(1, 0), 6);
  const auto column = x.select(1, 2);
  EXPECT_THAT(column.shape(), ElementsAre(2));
  EXPECT_EQ(column(1), 7);
  EXPECT_EQ(x.slice(0, 2, 2).size(), 0);
}

TEST(TensorView, TakesNegativeAndZeroStrides) {
  auto values = counting(6);
  const View<2> reversed(values.data() + 5, {2, 3}, {-3, -1});
  EXPECT_EQ(reversed(0, 0), 5);
  EXPECT_EQ(reversed(1, 2), 0);
  const View<2> broadcast(values.data(), {4, 3}, {0, 1});
  EXPECT_EQ(&broadcast(3, 1), &broadcast(0, 1));
}

TEST(TensorView, IsPackedWhateverTheStridesWhereNothingIsThere) {
  EXPECT_TRUE((View<2>(nullptr, {0, 3}, {7, 5}).is_packed()));
}

TEST(TensorView, ReadsLowerRankAsLeadingAxesOfOne) {
  auto values = counting(6);
  const View<2> matrix(values.data(), {2, 3});
  const CView<4> four = matrix;
  EXPECT_THAT(four.shape(), ElementsAre(1, 1, 2, 3));
  EXPECT_EQ(&four(0, 0, 1, 2), &matrix(1, 2));
}

TEST(TensorView, NamesTheArgumentAndBothValuesInErrors) {
  auto values = counting(10);
  const View<2> x(values.data(), {2, 5});
  EXPECT_THAT([&] { x.split_axis(1, 3); },
              ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("split_axis"), HasSubstr("3"), HasSubstr("5"))));
  EXPECT_THAT([&] { x.slice(1, 2, 6); },
              ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("slice"), HasSubstr("6"), HasSubstr("5"))));
  EXPECT_THROW(x.slice(1, 3, 2), std::invalid_argument);
  EXPECT_THROW(x.slice(1, -1, 2), std::invalid_argument);
  EXPECT_THROW(x.select(0, 2), std::invalid_argument);
  EXPECT_THROW(x.select(0, -1), std::invalid_argument);
  EXPECT_THROW(x.select(2, 0), std::invalid_argument);
  EXPECT_THROW(x.swap_axes(0, 2), std::invalid_argument);
  EXPECT_THROW((View<2>(values.data(), {-1, 5})), std::invalid_argument);
}

TEST(Tensor, RefusesASizeThatDoesNotFit) {
  const Index huge = Index{1} << 40;
  EXPECT_THAT(([&] { Tensor<float, 2>({huge, huge}); }), ThrowsMessage<std::invalid_argument>(HasSubstr("too large")));
  EXPECT_THROW((Tensor<float, 2>({-1, 3})), std::invalid_argument);
}

TEST(Tensor, MovesAndCopiesOnlyWhenAsked) {
  Tensor<float, 2> a({2, 3}, 1.5f);
  Tensor<float, 2> b = a.copy();
  b(1, 2) = 7;
  EXPECT_EQ(a(1, 2), 1.5f);
  const float* memory = b.data();
  const Tensor<float, 2> c = std::move(b);
  EXPECT_EQ(c.data(), memory);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c.data()) % kMemoryAlignment, 0u);
  EXPECT_EQ(b.size(), 0);
  EXPECT_EQ(b.shape(0), 0);
  static_assert(!std::is_copy_constructible_v<Tensor<float, 2>>);
}

}  // namespace
}  // namespace qkv
