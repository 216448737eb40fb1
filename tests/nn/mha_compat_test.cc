#include "qkv/nn/mha_compat.h"

#include "nn/layer_support.h"
#include "qkv/nn/multi_head_attention.h"

namespace qkv::test {
namespace {

template <int Rank>
Tensor<bool, Rank> bools(const Shape<Rank>& shape, const std::vector<bool>& numbers) {
  Tensor<bool, Rank> result(shape);
  EXPECT_EQ(result.size(), static_cast<Index>(numbers.size()));
  std::copy(numbers.begin(), numbers.end(), result.data());
  return result;
}

TEST(KeepFromAttnMask, TurnsEveryValueRound) {
  const auto mask = bools<2>({2, 3}, {false, true, true, false, false, true});
  const auto keep = keep_from_attn_mask(mask.view());
  EXPECT_EQ(keep.shape(), (Shape<4>{1, 1, 2, 3}));
  EXPECT_EQ(values(keep), (std::vector<bool>{true, false, false, true, true, false}));
}

TEST(KeepFromAttnMask, TakesAMaskForEachBatchEntryAndHead) {
  Tensor<bool, 3> mask({6, 2, 2}, false);  // [batch * num_heads, q_len, kv_len]
  mask(4, 1, 0) = true;
  const auto keep = keep_from_attn_mask(mask.view().split_axis(0, 3));
  EXPECT_EQ(keep.shape(), (Shape<4>{2, 3, 2, 2}));
  for (Index b = 0; b < 2; ++b)
    for (Index h = 0; h < 3; ++h) EXPECT_EQ(keep(b, h, 1, 0), b != 1 || h != 1);
}

TEST(KeepFromKeyPaddingMask, HidesPaddingFromEveryHeadAndQuery) {
  const auto padding = bools<2>({2, 3}, {false, false, true, false, true, true});
  const auto keep = keep_from_key_padding_mask(padding);
  EXPECT_EQ(keep.shape(), (Shape<4>{2, 1, 1, 3}));
  const MultiHeadAttention layer{
      .q_proj = identity_linear(1), .k_proj = identity_linear(1), .v_proj = identity_linear(1)};
  const auto value = tensor_of<3>({2, 3, 1}, {5, 5, 9, 7, 9, 9});
  const Tensor<float, 3> zeros({2, 3, 1}, 0);
  EXPECT_EQ(values(forward(layer, zeros, zeros, value, {.mask = {.keep = keep.view()}}).out),
            (std::vector<float>{5, 5, 5, 7, 7, 7}));
}

TEST(AverageHeads, IsTheMeanOverTheHeads) {
  const auto weights = tensor_of<4>({1, 2, 2, 2}, {0.25f, 0.75f, 1, 0, 0.75f, 0.25f, 0.5f, 0.5f});
  const auto mean = average_heads(weights);
  EXPECT_EQ(mean.shape(), (Shape<3>{1, 2, 2}));
  EXPECT_EQ(values(mean), (std::vector<float>{0.5f, 0.5f, 0.75f, 0.25f}));
}

TEST(AverageHeads, ReadsAnyStrideAndRefusesNoHeads) {
  Random random(1);
  const auto packed = random.tensor<4>({2, 4, 3, 5});  // [batch, q_len, num_heads, kv_len]
  const auto mean = average_heads(packed.view().swap_axes(1, 2));
  for (Index j = 0; j < 5; ++j)
    EXPECT_NEAR(mean(1, 2, j), (packed(1, 2, 0, j) + packed(1, 2, 1, j) + packed(1, 2, 2, j)) / 3, 1e-6);
  EXPECT_THAT(invalid([] {
                average_heads(Tensor<float, 4>({1, 0, 2, 2}));
              }),
              holds("average_heads: attn_weights.shape[1] (num_heads): got 0, expected >= 1"));
}

TEST(ClampValidLens, KeepsLengthsBetweenNoneAndAll) {
  const std::vector<Index> lengths{-1, 0, 3, 6, 7};
  const auto clamped = clamp_valid_lens<1>({lengths.data(), {5}}, 6);
  EXPECT_EQ(values(clamped), (std::vector<Index>{0, 0, 3, 6, 6}));
  const auto per_query = clamp_valid_lens<2>({lengths.data(), {2, 2}}, 2);
  EXPECT_EQ(per_query.shape(), (Shape<2>{2, 2}));
  EXPECT_EQ(values(per_query), (std::vector<Index>{0, 0, 2, 2}));
}

}  // namespace
}  // namespace qkv::test
