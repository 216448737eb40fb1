#include "qkv/nn/transformer_block.h"

#include "nn/layer_support.h"
#include "support/poison.h"

namespace qkv::test {
namespace {

TransformerBlock random_block(Random& random, Index embed_dim, Index num_heads, NormPlacement placement) {
  return {.attention = {.q_proj = random_linear(random, embed_dim, embed_dim),
                        .k_proj = random_linear(random, embed_dim, embed_dim),
                        .v_proj = random_linear(random, embed_dim, embed_dim),
                        .out_proj = random_linear(random, embed_dim, embed_dim),
                        .num_heads = num_heads},
          .attention_norm = random_norm(random, embed_dim),
          .feed_forward = {.up_proj = random_linear(random, 3 * embed_dim, embed_dim),
                           .down_proj = random_linear(random, embed_dim, 3 * embed_dim)},
          .feed_forward_norm = random_norm(random, embed_dim),
          .norm_placement = placement};
}

TEST(TransformerBlock, PostNormAgreesWithDouble) {
  Random random(1);
  const auto block = random_block(random, 18, 3, NormPlacement::kPost);
  const auto x = random.tensor<3>({2, 11, 18});
  const auto wide = to_double(x.view());
  const auto attention = multi_head_attention_reference(block.attention, wide, wide, wide);
  const auto middle = norm_reference(block.attention_norm, sum_reference(wide, attention.out));
  const auto expected = norm_reference(block.feed_forward_norm,
                                       sum_reference(middle, feed_forward_reference(block.feed_forward, middle)));
  const auto got = forward(block, x, {.observe = {.lse = true, .entropy = true, .attn_weights = true}});
  expect_near(got.out, expected, 1e-5);
  expect_near(got.attn_weights, attention.attention.attn_weights, 2e-6);
  expect_near(got.lse, attention.attention.lse, 4e-6);
  expect_near(got.entropy, attention.attention.entropy, 4e-6);
}

TEST(TransformerBlock, PreNormAgreesWithDouble) {
  Random random(2);
  const auto block = random_block(random, 18, 3, NormPlacement::kPre);
  const auto x = random.tensor<3>({2, 11, 18});
  const auto wide = to_double(x.view());
  const auto normed = norm_reference(block.attention_norm, wide);
  const auto attention = multi_head_attention_reference(block.attention, normed, normed, normed);
  const auto middle = sum_reference(wide, attention.out);
  const auto expected = sum_reference(
      middle, feed_forward_reference(block.feed_forward, norm_reference(block.feed_forward_norm, middle)));
  const auto got = forward(block, x, {.observe = {.attn_weights = true}});
  expect_near(got.out, expected, 1e-5);
  expect_near(got.attn_weights, attention.attention.attn_weights, 2e-6);
}

// https://github.com/pytorch/pytorch/issues/97111
TEST(TransformerBlock, KeepsTheLengthWhereEveryEntryIsPadded) {
  for (NormPlacement placement : {NormPlacement::kPost, NormPlacement::kPre}) {
    Random random(3);
    const auto block = random_block(random, 2, 1, placement);
    const auto x = random.tensor<3>({2, 3, 2});
    const std::vector<Index> valid_lens{2, 2};
    const auto padded = forward(block, x, {.mask = {.valid_lens = valid_lens}});
    ASSERT_EQ(padded.out.shape(), (Shape<3>{2, 3, 2}));
    const auto cut = forward(block, x.view().slice(1, 0, 2));
    for (Index b = 0; b < 2; ++b) {
      for (Index i = 0; i < 2; ++i)
        for (Index d = 0; d < 2; ++d) EXPECT_NEAR(padded.out(b, i, d), cut.out(b, i, d), 1e-6);
      for (Index d = 0; d < 2; ++d) EXPECT_TRUE(std::isfinite(padded.out(b, 2, d)));
    }
  }
}

TEST(TransformerBlock, GivesTheSameBitsWithAnyNumberOfThreads) {
  for (NormPlacement placement : {NormPlacement::kPost, NormPlacement::kPre}) {
    Random random(4);
    const auto block = random_block(random, 32, 4, placement);
    const auto x = random.tensor<3>({3, 41, 32});
    const auto expected = forward(block, x, {}, {.executor = &calling_thread_executor()});
    TbbExecutor executor(4);
    expect_same_bits(forward(block, x, {}, {.executor = &executor}).out, expected.out);
  }
}

TEST(TransformerBlock, LeavesItsInputAlone) {
  Random random(5);
  const auto block = random_block(random, 6, 2, NormPlacement::kPre);
  const auto x = random.tensor<3>({1, 4, 6});
  const auto before = x.copy();
  forward(block, x);
  expect_same_bits(x, before);
}

TEST(TransformerBlock, RefusesPartsThatDoNotFitTogether) {
  Random random(6);
  const Tensor<float, 3> x({1, 2, 6}, 0);
  auto block = random_block(random, 6, 2, NormPlacement::kPost);
  block.feed_forward_norm = random_norm(random, 5);
  EXPECT_THAT(invalid([&] { forward(block, x); }),
              holds("transformer_block: embed_dim of feed_forward_norm: got 5, expected 6"));
  block = random_block(random, 6, 2, NormPlacement::kPost);
  block.attention.out_proj = random_linear(random, 7, 6);
  EXPECT_THAT(invalid([&] { forward(block, x); }),
              holds("transformer_block: embed_dim of attention: got 7, expected 6"));
  block.attention.out_proj.reset();
  EXPECT_THAT(invalid([&] { forward(block, x); }), holds("transformer_block: attention.out_proj: got none"));
}

TEST(TransformerBlock, RefusesAnInputOfAnotherWidth) {
  Random random(7);
  const auto block = random_block(random, 6, 2, NormPlacement::kPost);
  const Tensor<float, 3> x({1, 2, 8}, 0);
  EXPECT_THAT(invalid([&] { forward(block, x); }), holds("transformer_block", "got 6, expected 8"));
}

}  // namespace
}  // namespace qkv::test
