#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "qkv/core/tensor.h"
#include "support/random.h"
#include "support/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/tiles_test.cc"
#include "qkv/kernels/simd_targets.h"
// simd_targets.h comes first.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "qkv/kernels/tiles-inl.h"

namespace qkv::kernels {
#ifndef QKV_TESTS_KERNELS_TILES_TEST_CASE_
#define QKV_TESTS_KERNELS_TILES_TEST_CASE_
// A product, and how many lines are fetched meanwhile.
struct TilesCase {
  const float* left;
  Index rows, depth, num_vectors, num_lines;
  bool by_columns;  // left is [depth, rows]
};
#endif
}  // namespace qkv::kernels

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels {
namespace HWY_NAMESPACE {

Index width_of(Index num_vectors) {
  return num_vectors * kLanes<float>;
}

// Whether all lines are fetched by the end.
bool multiply(const TilesCase& c, const float* panel, float* out) {
  Prefetch<float> prefetch;
  prefetch.add(c.left, 0, c.num_lines, 1);
  prefetch.spread_over(count_turns(c.num_vectors, c.rows, c.depth));
  const float* const no_partial = nullptr;
  with_vectors<float>(width_of(c.num_vectors), [&]<int kVectors>() {
    if (c.by_columns)
      return multiply_columns<kVectors>(c.left, c.rows, c.rows, panel, Steps::all(c.depth), no_partial, out, &prefetch);
    StoreSums<float, kVectors> finish{out, nullptr, &prefetch};
    multiply_rows<kVectors>(c.left, c.depth, 0, c.rows, panel, c.depth, finish);
  });
  return prefetch.is_done();
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace qkv::kernels {

HWY_EXPORT(width_of);
HWY_EXPORT(multiply);

namespace {

class Tiles : public test::OnEveryTarget {};

TEST_P(Tiles, MultiplyAndFetchAllThatTheyAreGiven) {
  test::Random random(5);
  for (bool by_columns : {false, true})
    for (Index rows : {1, 5, 16, 24, 97})
      for (Index depth : {1, 8, 16, 40, 64, 97, 300}) {
        if (by_columns && depth > 128) continue;
        const auto left = random.tensor<1>({rows * depth});
        for (Index num_vectors : {1, 2, 3})
          for (Index num_lines : {0, 1, 50, 1000}) {
            const Index width = HWY_DYNAMIC_DISPATCH(width_of)(num_vectors);
            const auto panel = random.tensor<1>({depth * width});
            Tensor<float, 1> out({rows * width}, 7.0f);
            const TilesCase c{left.data(), rows, depth, num_vectors, num_lines, by_columns};
            ASSERT_TRUE(HWY_DYNAMIC_DISPATCH(multiply)(c, panel.data(), out.data()))
                << rows << " x " << depth << ", " << num_vectors << " vectors, " << num_lines << " lines";
            for (Index r = 0; r < rows; ++r)
              for (Index i = 0; i < width; ++i) {
                double sum = 0;
                for (Index t = 0; t < depth; ++t)
                  sum += static_cast<double>(by_columns ? left(t * rows + r) : left(r * depth + t)) *
                         static_cast<double>(panel(t * width + i));
                ASSERT_NEAR(out(r * width + i), sum, 1e-4);
              }
          }
      }
}

INSTANTIATE_TEST_SUITE_P(Targets, Tiles, testing::ValuesIn(supported_targets()), test::OnEveryTarget::name);

}  // namespace
}  // namespace qkv::kernels

#endif  // HWY_ONCE
