#include "qkv/kernels/prefetch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace qkv::kernels {
namespace {

// Offsets of the lines that are fetched, in elements from `base`.
template <class T>
std::vector<Index> offsets(Prefetch<T> prefetch, const T* base) {
  std::vector<Index> result;
  while (const T* line = prefetch.next_line()) result.push_back(line - base);
  return result;
}

TEST(Prefetch, OfNothingFetchesNothing) {
  Prefetch<float> prefetch;
  EXPECT_EQ(prefetch.next_line(), nullptr);
  const float row[1] = {};
  prefetch.add(row, 1, 0, 1);
  prefetch.add(row, 1, 1, 0);
  prefetch.spread_over(4);
  EXPECT_TRUE(prefetch.is_done());
  prefetch.take_turn();
  EXPECT_EQ(prefetch.next_line(), nullptr);
}

TEST(Prefetch, GoesThroughEveryLineOfEveryRowOfAllParts) {
  const std::vector<float> memory(1000);
  Prefetch<float> prefetch;
  prefetch.add(memory.data(), 40, 3, 33);          // lines of 16: three a row
  prefetch.add(memory.data() + 900, -100, 2, 16);  // one a row, backwards
  prefetch.add(memory.data() + 700, 0, 1, 17);
  EXPECT_EQ(offsets(prefetch, memory.data()),
            (std::vector<Index>{0, 16, 32, 40, 56, 72, 80, 96, 112, 900, 800, 700, 716}));
}

TEST(Prefetch, CountsLinesOfDoublesInEights) {
  const std::vector<double> memory(64);
  Prefetch<double> prefetch;
  prefetch.add(memory.data(), 20, 2, 9);
  EXPECT_EQ(offsets(prefetch, memory.data()), (std::vector<Index>{0, 8, 20, 28}));
}

TEST(Prefetch, IsDoneAfterSoManyTurns) {
  const std::vector<float> memory(320);
  for (Index num_turns : {1, 3, 10, 100}) {
    Prefetch<float> prefetch;
    prefetch.add(memory.data(), 32, 10, 32);
    prefetch.spread_over(num_turns);
    for (Index turn = 0; turn < std::min<Index>(num_turns, 20); ++turn) {
      EXPECT_FALSE(prefetch.is_done()) << num_turns;
      prefetch.take_turn();
    }
    EXPECT_TRUE(prefetch.is_done()) << num_turns;
  }
}

TEST(Prefetch, TakesAtLeastOneTurn) {
  const std::vector<float> memory(16);
  Prefetch<float> prefetch;
  prefetch.add(memory.data(), 16, 1, 16);
  prefetch.spread_over(0);
  prefetch.take_turn();
  EXPECT_TRUE(prefetch.is_done());
}

}  // namespace
}  // namespace qkv::kernels
