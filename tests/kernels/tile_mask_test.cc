#include "qkv/kernels/tile_mask.h"

#include <gtest/gtest.h>

namespace qkv::kernels {
namespace {

constexpr Index kZero = 0;

AttentionArgs<float> args_of(Index q_len, Index kv_len, const Index& q_start) {
  const CView<4> q(nullptr, {1, 1, q_len, 4}), kv(nullptr, {1, 1, kv_len, 4});
  AttentionArgs<float> args(q, kv, kv);
  args.q_start = TensorView<const Index, 1>(&q_start, {1}, {0});
  return args;
}

TEST(PlaceQuery, IsEverythingWithoutMasks) {
  const auto range = place_query(args_of(3, 5, kZero), 0, 2).keys;
  EXPECT_EQ(range.begin, 0);
  EXPECT_EQ(range.end, 5);
}

TEST(PlaceQuery, CutsAtThePositionWhenCausal) {
  auto args = args_of(3, 5, kZero);
  args.causal = true;
  EXPECT_EQ(place_query(args, 0, 1).keys.end, 2);
  const Index before = -2;
  auto early = args_of(3, 5, before);
  early.causal = true;
  EXPECT_TRUE(place_query(early, 0, 1).keys.empty());
  EXPECT_EQ(place_query(early, 0, 2).keys.end, 1);
}

TEST(PlaceQuery, CountsThePositionItselfIntoTheWindow) {
  const Index start = 10;
  auto args = args_of(1, 100, start);
  args.window_left = 2;
  args.window_right = 3;
  const auto range = place_query(args, 0, 0).keys;
  EXPECT_EQ(range.begin, 8);
  EXPECT_EQ(range.end, 14);
}

TEST(PanelRange, HoldsTheUnionAndTheIntersection) {
  PanelRange panel{.any = {}, .common = {0, 100}};
  panel.add({10, 40});
  panel.add({20, 60});
  EXPECT_EQ(panel.any.begin, 10);
  EXPECT_EQ(panel.any.end, 60);
  EXPECT_TRUE(panel.common.contains({20, 40}));
  EXPECT_FALSE(panel.common.contains({19, 40}));
  EXPECT_FALSE(panel.common.contains({20, 41}));
  panel.add({0, 0});  // a query that sees nothing: no tile is free of masking any more
  EXPECT_EQ(panel.any.end, 60);
  EXPECT_FALSE(panel.common.contains({20, 40}));
}

TEST(PanelRange, IsEmptyWhenNoQuerySeesAKey) {
  PanelRange panel{.any = {}, .common = {0, 100}};
  panel.add({0, 0});
  EXPECT_TRUE(panel.any.empty());
}

}  // namespace
}  // namespace qkv::kernels
