#include "qkv/kernels/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "qkv/core/executor.h"
#include "support/poison.h"
#include "support/random.h"
#include "support/targets.h"

namespace qkv::kernels {
namespace {

using test::kNaN;

double activate(double x, Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return x > 0 ? x : 0;
    case Activation::kGeluErf:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  return x;
}

// A matrix with NaN after every row, which nobody may read or write.
class PaddedMatrix {
 public:
  PaddedMatrix(Index rows, Index cols) : storage_({rows + 1, cols + 3}, kNaN) {
    view_ = {storage_.data(), {rows, cols}, {cols + 3, 1}};
  }
  View<2> view() const { return view_; }

 private:
  Tensor<float, 2> storage_;
  View<2> view_{nullptr, {0, 0}};
};

PaddedMatrix random_matrix(Index rows, Index cols, test::Random& random) {
  PaddedMatrix matrix(rows, cols);
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < cols; ++j) matrix.view()(i, j) = random.normal();
  return matrix;
}

void run(const LinearArgs& args, Executor& executor) {
  const LinearPlan plan = plan_linear(args.x.shape(0), args.x.shape(1), args.weight.shape(0));
  Tensor<float, 1> workspace({plan.workspace_floats * executor.num_workers()}, kNaN);
  executor.run(plan.num_tasks, [&](Index task, Index worker) {
    linear_task(args, plan, task, workspace.data() + worker * plan.workspace_floats);
  });
}

class LinearKernel : public test::OnEveryTarget {};

TEST_P(LinearKernel, AgreesWithPlainLoopsInDouble) {
  test::Random random(11);
  bool outputs_lay_in_lanes[2] = {};
  for (Index tokens : {1, 2, 3, 4, 5, 8, 16, 24, 25, 49, 130, 200})
    for (Index in_dim : {1, 5, 64, 300, 777})
      for (Index out_dim : {1, 4, 13, 200, 1021}) {  // of 1021 the rows lie 4096 bytes apart
        if (in_dim * out_dim > 160'000) continue;
        outputs_lay_in_lanes[plan_linear(tokens, in_dim, out_dim).outputs_in_lanes] = true;
        const auto activation = static_cast<Activation>((tokens + in_dim + out_dim) % 4);
        const bool has_bias = (tokens + out_dim) % 2 == 0;
        const PaddedMatrix x = random_matrix(tokens, in_dim, random), weight = random_matrix(out_dim, in_dim, random);
        const PaddedMatrix bias = random_matrix(1, out_dim, random), y(tokens, out_dim);
        run({x.view(), weight.view(), has_bias ? bias.view().data() : nullptr, y.view(), activation},
            calling_thread_executor());
        for (Index i = 0; i < tokens; ++i) {
          for (Index o = 0; o < out_dim; ++o) {
            double sum = has_bias ? bias.view()(0, o) : 0, magnitude = std::abs(sum);
            for (Index c = 0; c < in_dim; ++c) {
              const double product = static_cast<double>(x.view()(i, c)) * static_cast<double>(weight.view()(o, c));
              sum += product;
              magnitude += std::abs(product);
            }
            // sum of |products| times a few roundings; erf adds 1.3e-7 times x / 2
            const double tolerance = 8 * 0x1p-24 * (magnitude + 1) + 1e-7 * std::abs(sum);
            ASSERT_NEAR(y.view()(i, o), activate(sum, activation), tolerance)
                << "tokens " << tokens << " in " << in_dim << " out " << out_dim << " at " << i << ", " << o;
          }
          ASSERT_TRUE(std::isnan(y.view().data()[i * y.view().stride(0) + out_dim])) << "wrote past row " << i;
        }
      }
  EXPECT_TRUE(outputs_lay_in_lanes[false]);
  EXPECT_TRUE(outputs_lay_in_lanes[true]);
}

// Which side lies in lanes depends on the number of tokens; what becomes of a token must not.
TEST_P(LinearKernel, GivesTheSameBitsInShortCallsAndLongOnes) {
  test::Random random(14);
  constexpr Index kTokens = 176, kInDim = 300, kOutDim = 200, kShort = 16;
  const PaddedMatrix x = random_matrix(kTokens, kInDim, random), weight = random_matrix(kOutDim, kInDim, random);
  const PaddedMatrix bias = random_matrix(1, kOutDim, random), whole(kTokens, kOutDim), parts(kTokens, kOutDim);
  const auto run_tokens = [&](const PaddedMatrix& y, Index begin, Index end) {
    run({x.view().slice(0, begin, end), weight.view(), bias.view().data(), y.view().slice(0, begin, end),
         Activation::kGeluErf},
        calling_thread_executor());
    return plan_linear(end - begin, kInDim, kOutDim).outputs_in_lanes;
  };
  EXPECT_TRUE(run_tokens(whole, 0, kTokens));
  for (Index begin = 0; begin < kTokens; begin += kShort) run_tokens(parts, begin, begin + kShort);
  EXPECT_FALSE(plan_linear(kShort, kInDim, kOutDim).outputs_in_lanes);
  for (Index i = 0; i < kTokens; ++i)
    for (Index o = 0; o < kOutDim; ++o) ASSERT_EQ(whole.view()(i, o), parts.view()(i, o)) << i << ", " << o;
}

TEST_P(LinearKernel, GivesTheSameBitsForAnyNumberOfThreads) {
  test::Random random(12);
  const PaddedMatrix x = random_matrix(300, 70, random), weight = random_matrix(500, 70, random);
  const PaddedMatrix one(300, 500), four(300, 500);
  TbbExecutor threads(4);
  run({x.view(), weight.view(), nullptr, one.view()}, calling_thread_executor());
  run({x.view(), weight.view(), nullptr, four.view()}, threads);
  for (Index i = 0; i < 300; ++i)
    for (Index o = 0; o < 500; ++o) ASSERT_EQ(one.view()(i, o), four.view()(i, o));
}

TEST_P(LinearKernel, TakesEmptyShapes) {
  const PaddedMatrix x(0, 5), weight(3, 5), y(0, 3);
  run({x.view(), weight.view(), nullptr, y.view()}, calling_thread_executor());
  EXPECT_EQ(plan_linear(4, 5, 0).num_tasks, 0);
}

// A token or a few pack nothing, so what they need does not grow with in_dim.
TEST_P(LinearKernel, NeedsLittleScratchForFewTokens) {
  EXPECT_LE(plan_linear(1, 1 << 20, 768).workspace_floats, plan_linear(1, 1024, 768).workspace_floats);
}

TEST_P(LinearKernel, KeepsNaNInItsOwnToken) {
  test::Random random(13);
  const PaddedMatrix x = random_matrix(30, 9, random), weight = random_matrix(7, 9, random), y(30, 7);
  x.view()(4, 2) = kNaN;
  run({x.view(), weight.view(), nullptr, y.view(), Activation::kRelu}, calling_thread_executor());
  for (Index i = 0; i < 30; ++i)
    for (Index o = 0; o < 7; ++o) ASSERT_EQ(std::isnan(y.view()(i, o)), i == 4) << i;
}

INSTANTIATE_TEST_SUITE_P(Targets, LinearKernel, testing::ValuesIn(supported_targets()), test::OnEveryTarget::name);

}  // namespace
}  // namespace qkv::kernels
