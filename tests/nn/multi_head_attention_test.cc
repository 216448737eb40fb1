#include "qkv/nn/multi_head_attention.h"

#include "nn/layer_support.h"
#include "support/poison.h"

namespace qkv::test {
namespace {

MultiHeadAttention random_attention(Random& random, Index embed_dim, Index num_heads, bool has_bias = true) {
  return {.q_proj = random_linear(random, embed_dim, embed_dim, has_bias),
          .k_proj = random_linear(random, embed_dim, embed_dim, has_bias),
          .v_proj = random_linear(random, embed_dim, embed_dim, has_bias),
          .out_proj = random_linear(random, embed_dim, embed_dim, has_bias),
          .num_heads = num_heads};
}

// A layer of one dimension per head whose scores are all 0: every visible key weighs the same, and the result is the
// plain mean of the visible values.
MultiHeadAttention uniform_attention(Index num_heads) {
  MultiHeadAttention layer{.q_proj = identity_linear(num_heads),
                           .k_proj = identity_linear(num_heads),
                           .v_proj = identity_linear(num_heads),
                           .num_heads = num_heads};
  layer.q_proj.weight = Tensor<float, 2>({num_heads, num_heads}, 0);
  return layer;
}

TEST(MultiHeadAttention, SelfAttentionAgreesWithDouble) {
  Random random(1);
  const auto layer = random_attention(random, 24, 3);
  const auto x = random.tensor<3>({2, 13, 24});
  const auto got = forward(layer, x, x, x, {.observe = {.lse = true, .entropy = true, .attn_weights = true}});
  const auto wide = to_double(x.view());
  const auto expected = multi_head_attention_reference(layer, wide, wide, wide);
  expect_near(got.out, expected.out, 4e-6);
  expect_near(got.attn_weights, expected.attention.attn_weights, 2e-6);
  expect_near(got.lse, expected.attention.lse, 4e-6);
  expect_near(got.entropy, expected.attention.entropy, 4e-6);
}

TEST(MultiHeadAttention, CrossAttentionTakesWidthsAndLengthsOfItsOwn) {
  Random random(2);
  const MultiHeadAttention layer{.q_proj = random_linear(random, 12, 10),
                                 .k_proj = random_linear(random, 12, 7),
                                 .v_proj = random_linear(random, 20, 9),
                                 .out_proj = random_linear(random, 6, 20),
                                 .num_heads = 4};
  const auto query = random.tensor<3>({2, 5, 10}), key = random.tensor<3>({2, 8, 7}),
             value = random.tensor<3>({2, 8, 9});
  const auto got = forward(layer, query, key, value, {.observe = {.attn_weights = true}});
  const auto expected =
      multi_head_attention_reference(layer, to_double(query.view()), to_double(key.view()), to_double(value.view()));
  EXPECT_EQ(got.out.shape(), (Shape<3>{2, 5, 6}));
  EXPECT_EQ(got.attn_weights.shape(), (Shape<4>{2, 4, 5, 8}));
  expect_near(got.out, expected.out, 4e-6);
  expect_near(got.attn_weights, expected.attention.attn_weights, 2e-6);
}

// The tutorial layer without output projection: input [32, 20, 10], 2 heads, hidden 20.
TEST(MultiHeadAttention, WithoutOutputProjectionTheMergedHeadsAreTheResult) {
  Random random(3);
  const MultiHeadAttention layer{.q_proj = random_linear(random, 20, 10),
                                 .k_proj = random_linear(random, 20, 10),
                                 .v_proj = random_linear(random, 20, 10),
                                 .num_heads = 2};
  const auto x = random.tensor<3>({32, 20, 10});
  const auto got = forward(layer, x, x, x);
  EXPECT_EQ(got.out.shape(), (Shape<3>{32, 20, 20}));
  const auto wide = to_double(x.view());
  expect_near(got.out, multi_head_attention_reference(layer, wide, wide, wide).out, 4e-6);
}

// d2l's example: queries of ones [2, 4, 100], keys and values of ones [2, 6, 100], valid_lens {3, 2}, 5 heads.
TEST(MultiHeadAttention, GivesTheShapeOfTheD2lExampleAndEqualRows) {
  Random random(4);
  const auto layer = random_attention(random, 100, 5, false);
  const Tensor<float, 3> queries({2, 4, 100}, 1), keys({2, 6, 100}, 1);
  const std::vector<Index> valid_lens{3, 2};
  const auto got = forward(layer, queries, keys, keys, {.mask = {.valid_lens = valid_lens}});
  ASSERT_EQ(got.out.shape(), (Shape<3>{2, 4, 100}));
  for (Index b = 0; b < 2; ++b)
    for (Index i = 0; i < 4; ++i)
      for (Index d = 0; d < 100; ++d) ASSERT_NEAR(got.out(b, i, d), got.out(0, 0, d), 1e-6);
}

TEST(MultiHeadAttention, SharesKeyValueHeadsAmongGroups) {
  Random random(5);
  const MultiHeadAttention layer{.q_proj = random_linear(random, 24, 16),
                                 .k_proj = random_linear(random, 8, 16),
                                 .v_proj = random_linear(random, 10, 16),
                                 .out_proj = random_linear(random, 16, 30),
                                 .num_heads = 6,
                                 .num_kv_heads = 2};
  const auto x = random.tensor<3>({2, 9, 16});
  const auto got = forward(layer, x, x, x, {.observe = {.attn_weights = true}});
  const auto wide = to_double(x.view());
  const auto expected = multi_head_attention_reference(layer, wide, wide, wide);
  EXPECT_EQ(got.attn_weights.shape(), (Shape<4>{2, 6, 9, 9}));
  expect_near(got.out, expected.out, 4e-6);
}

TEST(MultiHeadAttention, PassesEveryOptionOn) {
  Random random(6);
  const auto layer = random_attention(random, 12, 2);
  const auto x = random.tensor<3>({2, 7, 12});
  const auto bias = random.tensor<4>({1, 2, 7, 7});
  Tensor<double, 4> wide_bias(bias.shape());
  for (Index n = 0; n < bias.size(); ++n) wide_bias.data()[n] = bias.data()[n];
  const auto got = forward(
      layer, x, x, x,
      {.scale = 0.7, .softcap = 1.5, .attn_bias = bias.view(), .mask = {.causal = true, .window = Window{.left = 3}}});
  const auto wide = to_double(x.view());
  const auto expected = multi_head_attention_reference(layer, wide, wide, wide, [&](auto& args) {
    args.scale = static_cast<float>(0.7);
    args.softcap = 1.5;
    args.attn_bias = TensorView<const double, 4>(wide_bias.data(), {2, 2, 7, 7}, {0, 49, 7, 1});
    args.causal = true;
    args.window_left = 3;
  });
  expect_near(got.out, expected.out, 4e-6);
}

// https://github.com/pytorch/pytorch/issues/63271
TEST(MultiHeadAttention, PaddingHidesColumnsOnlyNextToAPerHeadMask) {
  const auto layer = uniform_attention(2);
  const auto x = tensor_of<3>({1, 3, 2}, {1, 1, 2, 2, 6, 6});
  Tensor<bool, 4> causal({1, 2, 3, 3}, false);
  for (Index h = 0; h < 2; ++h)
    for (Index i = 0; i < 3; ++i)
      for (Index j = 0; j <= i; ++j) causal(0, h, i, j) = true;
  const std::vector<Index> valid_lens{2};
  const auto got = forward(layer, x, x, x, {.mask = {.valid_lens = valid_lens, .keep = causal.view()}});
  EXPECT_EQ(values(got.out), (std::vector<float>{1, 1, 1.5, 1.5, 1.5, 1.5}));
}

// https://github.com/pytorch/pytorch/issues/92554
TEST(MultiHeadAttention, PaddingAsNumbersEqualsPaddingAsBooleans) {
  const auto layer = uniform_attention(1);
  const auto x = tensor_of<3>({1, 3, 1}, {1, 2, 6});
  const auto bias = tensor_of<4>({1, 1, 1, 3}, {0, 0, -kInfinity});
  Tensor<bool, 4> keep({1, 1, 1, 3}, true);
  keep(0, 0, 0, 2) = false;
  const auto zeros = tensor_of<4>({1, 1, 1, 3}, {0, 0, 0});
  const std::vector<float> expected{1.5, 1.5, 1.5};  // 3 where the padding is lost
  EXPECT_EQ(values(forward(layer, x, x, x, {.attn_bias = bias.view()}).out), expected);
  EXPECT_EQ(values(forward(layer, x, x, x, {.mask = {.keep = keep.view()}}).out), expected);
  EXPECT_EQ(values(forward(layer, x, x, x, {.attn_bias = zeros.view(), .mask = {.keep = keep.view()}}).out), expected);
}

// https://github.com/pytorch/pytorch/issues/160064
TEST(MultiHeadAttention, AFullyMaskedRowIsZeroWithWeightsAndWithout) {
  MultiHeadAttention layer{
      .q_proj = identity_linear(2), .k_proj = identity_linear(2), .v_proj = identity_linear(2), .num_heads = 1};
  const auto x = tensor_of<3>({1, 2, 2}, {1, 0, 0, 1}), value = tensor_of<3>({1, 2, 2}, {1, 2, 3, 4});
  Tensor<bool, 4> keep({1, 1, 2, 2}, true);
  keep(0, 0, 0, 0) = keep(0, 0, 0, 1) = false;
  const MultiHeadAttentionOptions options{.mask = {.keep = keep.view()}};
  const auto plain = forward(layer, x, x, value, options);
  auto observing = options;
  observing.observe = {.lse = true, .attn_weights = true};
  const auto observed = forward(layer, x, x, value, observing);
  expect_same_bits(observed.out, plain.out);
  expect_near(plain.out, tensor_of<3>({1, 2, 2}, {0, 0, 2.33952f, 3.33952f}), 1e-5);
  expect_near(observed.attn_weights, tensor_of<4>({1, 1, 2, 2}, {0, 0, 0.33024f, 0.66976f}), 1e-5);
  EXPECT_EQ(observed.lse(0, 0, 0), -kInfinity);
  EXPECT_NEAR(observed.lse(0, 0, 1), 1.10794, 1e-5);
}

// https://github.com/pytorch/pytorch/issues/103749
TEST(MultiHeadAttention, AQueryWithoutKeysGivesTheOutputBias) {
  Random random(7);
  const auto layer = random_attention(random, 6, 2);
  const auto x = random.tensor<3>({2, 3, 6});
  const std::vector<Index> valid_lens{0, 3};
  const auto got = forward(layer, x, x, x, {.mask = {.valid_lens = valid_lens}});
  for (Index i = 0; i < 3; ++i)
    for (Index d = 0; d < 6; ++d) EXPECT_EQ(got.out(0, i, d), (*layer.out_proj->bias)(d));
}

// https://github.com/NVIDIA/FasterTransformer/issues/270
TEST(MultiHeadAttention, CrossAttentionDoesNotDependOnHowFarTheMemoryIsPadded) {
  Random random(8);
  const auto layer = random_attention(random, 16, 4);
  const auto query = random.tensor<3>({1, 6, 16});
  const auto memory = random.tensor<3>({1, 5, 16});
  const std::vector<Index> valid_lens{4};
  const auto expected = forward(layer, query, memory, memory, {.mask = {.valid_lens = valid_lens}});
  Tensor<float, 3> padded({1, 50, 16}, kNaN);
  for (Index j = 0; j < 4; ++j)
    for (Index d = 0; d < 16; ++d) padded(0, j, d) = memory(0, j, d);
  const auto got = forward(layer, query, padded, padded, {.mask = {.valid_lens = valid_lens}});
  expect_near(got.out, expected.out, 1e-6);
}

// https://github.com/pytorch/pytorch/issues/88669
TEST(MultiHeadAttention, WithoutBiasesEqualsZeroBiasesBitForBit) {
  Random random(9);
  auto layer = random_attention(random, 8, 2, false);
  const auto x = random.tensor<3>({1, 5, 8});
  const auto expected = forward(layer, x, x, x);
  for (Linear* projection : {&layer.q_proj, &layer.k_proj, &layer.v_proj, &*layer.out_proj})
    projection->bias = Tensor<float, 1>({8}, 0);
  expect_same_bits(forward(layer, x, x, x).out, expected.out);
}

TEST(MultiHeadAttention, OneHeadWithIdentityProjectionsIsPlainAttention) {
  const MultiHeadAttention layer{
      .q_proj = identity_linear(2), .k_proj = identity_linear(2), .v_proj = identity_linear(2), .num_heads = 1};
  const auto x = tensor_of<3>({1, 2, 2}, {1, 0, 0, 1});
  const auto got = forward(layer, x, x, x, {.observe = {.attn_weights = true}});
  expect_near(got.attn_weights, tensor_of<4>({1, 1, 2, 2}, {0.66976f, 0.33024f, 0.33024f, 0.66976f}), 1e-5);
  expect_near(got.out, tensor_of<3>({1, 2, 2}, {0.66976f, 0.33024f, 0.33024f, 0.66976f}), 1e-5);
}

TEST(MultiHeadAttention, AskingForObservablesChangesNoBit) {
  Random random(10);
  const auto layer = random_attention(random, 32, 4);
  const auto x = random.tensor<3>({2, 29, 32});
  const auto plain = forward(layer, x, x, x);
  const auto observed = forward(layer, x, x, x, {.observe = {.lse = true, .entropy = true, .attn_weights = true}});
  expect_same_bits(observed.out, plain.out);
  EXPECT_TRUE(plain.lse.empty() && plain.entropy.empty() && plain.attn_weights.empty());
}

TEST(MultiHeadAttention, GivesTheSameBitsWithAnyNumberOfThreads) {
  Random random(11);
  const auto layer = random_attention(random, 48, 6);
  const auto x = random.tensor<3>({3, 50, 48});
  const auto expected = forward(layer, x, x, x, {}, {.executor = &calling_thread_executor()});
  for (Index num_threads : {2, 4}) {
    TbbExecutor executor(num_threads);
    expect_same_bits(forward(layer, x, x, x, {}, {.executor = &executor}).out, expected.out);
  }
}

TEST(MultiHeadAttention, ReadsStridedInput) {
  Random random(12);
  const auto layer = random_attention(random, 12, 3);
  const auto packed = random.tensor<4>({2, 7, 3, 12});  // query, key and value side by side
  const CView<3> query = packed.view().select(2, 0), key = packed.view().select(2, 1),
                 value = packed.view().select(2, 2);
  const auto expected = multi_head_attention_reference(layer, to_double(query), to_double(key), to_double(value));
  expect_near(forward(layer, query, key, value).out, expected.out, 4e-6);
}

TEST(MultiHeadAttention, AcceptsNoQueriesAndNoKeys) {
  Random random(13);
  const auto layer = random_attention(random, 6, 2);
  const Tensor<float, 3> none({1, 0, 6}), some({1, 3, 6}, 1);
  EXPECT_EQ(forward(layer, none, some, some).out.shape(), (Shape<3>{1, 0, 6}));
  const auto got = forward(layer, some, none, none);
  for (Index i = 0; i < 3; ++i)
    for (Index d = 0; d < 6; ++d) EXPECT_EQ(got.out(0, i, d), (*layer.out_proj->bias)(d));
}

// https://github.com/Unity-Technologies/ml-agents/pull/4840
TEST(MultiHeadAttention, RefusesAWidthThatHeadsDoNotDivide) {
  Random random(14);
  const Tensor<float, 3> x({1, 2, 10}, 0);
  EXPECT_THAT(invalid([&] { forward(random_attention(random, 10, 4), x, x, x); }),
              holds("multi_head_attention: q_proj.weight.shape[0]", "got 10", "num_heads = 4"));
  const Tensor<float, 3> narrow({1, 2, 2}, 0);
  EXPECT_THAT(invalid([&] { forward(random_attention(random, 2, 8), narrow, narrow, narrow); }),
              holds("multi_head_attention: q_proj.weight.shape[0]", "got 2", "num_heads = 8"));
}

TEST(MultiHeadAttention, RefusesHeadsOfDifferentWidth) {
  Random random(15);
  auto layer = random_attention(random, 12, 2);
  layer.k_proj = random_linear(random, 8, 12);
  const Tensor<float, 3> x({1, 2, 12}, 0);
  EXPECT_THAT(invalid([&] { forward(layer, x, x, x); }),
              holds("multi_head_attention: head_dim of k_proj: got 4, expected 6"));
}

TEST(MultiHeadAttention, RefusesGroupsThatDoNotDivide) {
  Random random(16);
  auto layer = random_attention(random, 12, 3);
  layer.num_kv_heads = 2;
  layer.k_proj = random_linear(random, 8, 12);
  layer.v_proj = random_linear(random, 8, 12);
  const Tensor<float, 3> x({1, 2, 12}, 0);
  EXPECT_THAT(invalid([&] { forward(layer, x, x, x); }),
              holds("multi_head_attention: num_heads: got 3", "num_kv_heads = 2"));
  layer.num_kv_heads = 0;
  EXPECT_THAT(invalid([&] { forward(layer, x, x, x); }), holds("num_kv_heads: got 0, expected >= 1"));
}

TEST(MultiHeadAttention, RefusesAnOutputProjectionThatDoesNotFit) {
  Random random(17);
  auto layer = random_attention(random, 12, 2);
  layer.out_proj = random_linear(random, 12, 10);
  const Tensor<float, 3> x({1, 2, 12}, 0);
  EXPECT_THAT(invalid([&] { forward(layer, x, x, x); }),
              holds("multi_head_attention: out_proj.weight.shape[1]: got 10, expected 12"));
}

TEST(MultiHeadAttention, RefusesInputsThatDisagree) {
  Random random(18);
  const auto layer = random_attention(random, 6, 2);
  const Tensor<float, 3> x({2, 4, 6}, 0), other_batch({3, 4, 6}, 0), longer({2, 5, 6}, 0), wider({2, 4, 7}, 0);
  EXPECT_THAT(invalid([&] { forward(layer, x, other_batch, other_batch); }),
              holds("multi_head_attention: key.shape[0] (batch): got 3, expected 2"));
  EXPECT_THAT(invalid([&] { forward(layer, x, x, other_batch); }), holds("value.shape[0] (batch): got 3, expected 2"));
  EXPECT_THAT(invalid([&] { forward(layer, x, x, longer); }), holds("value.shape[1] (kv_len): got 5, expected 4"));
  EXPECT_THAT(invalid([&] { forward(layer, wider, x, x); }), holds("query.shape[2] (width): got 7, expected 6"));
  EXPECT_THAT(invalid([&] { forward(layer, x, wider, x); }), holds("key.shape[2] (width): got 7, expected 6"));
  EXPECT_THAT(invalid([&] { forward(layer, x, x, wider); }), holds("value.shape[2] (width): got 7, expected 6"));
}

TEST(MultiHeadAttention, RefusesBadOptionsBeforeAnyWork) {
  Random random(19);
  const auto layer = random_attention(random, 6, 2);
  const Tensor<float, 3> x({2, 4, 6}, 0);
  const std::vector<Index> valid_lens{5, 1};
  EXPECT_THAT(invalid([&] { forward(layer, x, x, x, {.mask = {.valid_lens = valid_lens}}); }),
              holds("valid_lens: got 5", "kv_len = 4"));
  EXPECT_THAT(invalid([&] { forward(layer, x, x, x, {.softcap = -1}); }), holds("softcap: got -1"));
}

}  // namespace
}  // namespace qkv::test
