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

// Part of a product: by rows for the vectors from `first` on; by columns added to `out`, vector v as deep as ends[v].
struct PartCase {
  const float* left;
  Index rows, depth, num_vectors;
  int first;
  const Index* ends;  // by columns, else null
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
    StoreSums<float, kVectors> epilogue{out, nullptr, &prefetch};
    multiply_rows<kVectors>(c.left, c.depth, 0, c.rows, panel, c.depth, epilogue);
  });
  return prefetch.is_done();
}

bool knows_steps() {
  return kLanesAreMany<float>;
}

void multiply_part(const PartCase& c, const float* panel, float* out) {
  with_vectors<float>(width_of(c.num_vectors), [&]<int kVectors>() {
    if (c.ends)
      return multiply_columns<kVectors>(c.left, c.rows, c.rows, panel, Steps{{c.ends[0], c.ends[1], c.ends[2]}}, out,
                                        out);
    StoreSums<float, kVectors> epilogue{out};
    const auto multiply_from = [&]<int kFirst>() {
      if constexpr (kFirst < kVectors)
        multiply_rows<kVectors, kFirst>(c.left, c.depth, 0, c.rows, panel, c.depth, epilogue);
    };
    switch (c.first) {
      case 0:
        return multiply_from.template operator()<0>();
      case 1:
        return multiply_from.template operator()<1>();
      default:
        return multiply_from.template operator()<2>();
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace qkv::kernels {

HWY_EXPORT(width_of);
HWY_EXPORT(multiply);
HWY_EXPORT(knows_steps);
HWY_EXPORT(multiply_part);

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

// left(r, t) * panel(t, i) over the first `depth` t.
double product(const PartCase& c, const Tensor<float, 1>& panel, Index width, Index r, Index i, Index depth) {
  double sum = 0;
  for (Index t = 0; t < depth; ++t)
    sum += static_cast<double>(c.ends ? c.left[t * c.rows + r] : c.left[r * c.depth + t]) *
           static_cast<double>(panel(t * width + i));
  return sum;
}

TEST_P(Tiles, LeaveOutTheFirstVectors) {
  test::Random random(6);
  for (Index rows : {1, 5, 16, 24, 97})
    for (Index depth : {1, 64, 300}) {
      const auto left = random.tensor<1>({rows * depth});
      for (Index num_vectors : {1, 2, 3})
        for (int first = 0; first < num_vectors; ++first) {
          const Index width = HWY_DYNAMIC_DISPATCH(width_of)(num_vectors);
          const auto panel = random.tensor<1>({depth * width});
          Tensor<float, 1> out({rows * width}, 7.0f);
          const PartCase c{left.data(), rows, depth, num_vectors, first, nullptr};
          HWY_DYNAMIC_DISPATCH(multiply_part)(c, panel.data(), out.data());
          for (Index r = 0; r < rows; ++r)
            for (Index i = 0; i < width; ++i) {
              const bool is_left_out = i < first * width / num_vectors;
              const double expected = is_left_out ? 7 : product(c, panel, width, r, i, depth);
              ASSERT_NEAR(out(r * width + i), expected, 1e-4) << rows << " x " << depth << ", vector " << first;
            }
        }
    }
}

TEST_P(Tiles, AddColumnsAsFarAsTheirStepsGo) {
  test::Random random(7);
  const bool knows_steps = HWY_DYNAMIC_DISPATCH(knows_steps)();
  for (const std::vector<Index>& ends : {std::vector<Index>{0, 0, 96}, {16, 32, 48}, {3, 3, 90}, {96, 96, 96}})
    for (Index rows : {1, 5, 16, 24, 97}) {
      const auto left = random.tensor<1>({rows * 96});
      for (Index num_vectors : {1, 2, 3}) {
        const Index width = HWY_DYNAMIC_DISPATCH(width_of)(num_vectors);
        const auto panel = random.tensor<1>({96 * width});
        Tensor<float, 1> out({rows * width}, 7.0f);
        const PartCase c{left.data(), rows, 96, num_vectors, 0, ends.data()};
        HWY_DYNAMIC_DISPATCH(multiply_part)(c, panel.data(), out.data());
        for (Index r = 0; r < rows; ++r)
          for (Index i = 0; i < width; ++i) {
            const Index depth = ends[knows_steps ? i * num_vectors / width : 0];
            ASSERT_NEAR(out(r * width + i), 7 + product(c, panel, width, r, i, depth), 1e-4) << rows << " rows";
          }
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Targets, Tiles, testing::ValuesIn(supported_targets()), test::OnEveryTarget::name);

}  // namespace
}  // namespace qkv::kernels

#endif  // HWY_ONCE
