#include "qkv/nn/patches.h"

#include "nn/layer_support.h"
#include "qkv/nn/multi_head_attention.h"
#include "qkv/nn/positional.h"

namespace qkv::test {
namespace {

TEST(CutPatches, ReadsPatchesRowByRow) {
  const auto picture = tensor_of<4>({1, 4, 6, 1}, {0,  1,  2,  3,  4,  5,   //
                                                   6,  7,  8,  9,  10, 11,  //
                                                   12, 13, 14, 15, 16, 17,  //
                                                   18, 19, 20, 21, 22, 23});
  const auto patches = cut_patches(picture, 2);
  EXPECT_EQ(patches.shape(), (Shape<3>{1, 6, 4}));
  EXPECT_EQ(values(patches), (std::vector<float>{0,  1,  6,  7,  2,  3,  8,  9,  4,  5,  10, 11,  //
                                                 12, 13, 18, 19, 14, 15, 20, 21, 16, 17, 22, 23}));
}

TEST(CutPatches, KeepsChannelsTogetherAndReadsAnyStride) {
  Random random(1);
  const auto planes = random.tensor<4>({2, 3, 4, 4});  // [batch, channels, height, width], as PyTorch has it
  const auto pictures = planes.view().swap_axes(1, 3).swap_axes(1, 2);
  const auto patches = cut_patches(pictures, 2);
  EXPECT_EQ(patches.shape(), (Shape<3>{2, 4, 12}));
  for (Index b = 0; b < 2; ++b)
    for (Index n = 0; n < 4; ++n)
      for (Index y = 0; y < 2; ++y)
        for (Index x = 0; x < 2; ++x)
          for (Index c = 0; c < 3; ++c)
            EXPECT_EQ(patches(b, n, (y * 2 + x) * 3 + c), planes(b, c, n / 2 * 2 + y, n % 2 * 2 + x));
}

// Vision is one more sequence: patches, a linear embedding, positions, attention.
TEST(CutPatches, FeedAttentionLikeWords) {
  Random random(2);
  const auto pictures = random.tensor<4>({2, 8, 8, 1});
  const Linear embedding = random_linear(random, 12, 16);
  const MultiHeadAttention layer{.q_proj = random_linear(random, 12, 12),
                                 .k_proj = random_linear(random, 12, 12),
                                 .v_proj = random_linear(random, 12, 12),
                                 .out_proj = random_linear(random, 12, 12),
                                 .num_heads = 3};
  const auto x = forward(sinusoidal_positions(4, 12), forward(embedding, cut_patches(pictures, 4)));
  const auto got = forward(layer, x, x, x, {.observe = {.attn_weights = true}});
  EXPECT_EQ(got.out.shape(), (Shape<3>{2, 4, 12}));
  EXPECT_EQ(got.attn_weights.shape(), (Shape<4>{2, 3, 4, 4}));
}

TEST(CutPatches, TakesPatchesAsLargeAsThePictureAndEmptyBatches) {
  Random random(3);
  const auto picture = random.tensor<4>({1, 3, 3, 2});
  EXPECT_EQ(values(cut_patches(picture, 3)), values(picture));
  EXPECT_EQ(cut_patches(Tensor<float, 4>({0, 4, 4, 3}), 2).shape(), (Shape<3>{0, 4, 12}));
}

TEST(CutPatches, RefusesPicturesThatPatchesDoNotFill) {
  const Tensor<float, 4> picture({1, 4, 6, 1}, 0);
  EXPECT_THAT(invalid([&] { cut_patches(picture, 3); }),
              holds("cut_patches: pictures.shape[1] (height): got 4", "patch = 3"));
  EXPECT_THAT(invalid([&] { cut_patches(picture, 4); }), holds("pictures.shape[2] (width): got 6", "patch = 4"));
  EXPECT_THAT(invalid([&] { cut_patches(picture, 0); }), holds("patch: got 0, expected >= 1"));
}

}  // namespace
}  // namespace qkv::test
