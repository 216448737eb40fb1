// One behaviour of the contract a test. Values are worked out by hand; "uniform" means q = k = 0, so that every visible
// key has the same weight and a row of out is the plain mean of the values it sees. Shapes and masks in bulk:
// attention_sweep_test.cc.

#include "qkv/attention/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/poison.h"
#include "support/random.h"
#include "support/targets.h"

namespace qkv {
namespace {

using test::kInfinity;
using test::kNaN;
using testing::ElementsAre;
using testing::FloatEq;
using testing::FloatNear;
using testing::Pointwise;

/// A [1, heads, len, dim] tensor of the given values.
Tensor<float, 4> tensor(const std::vector<float>& values, Index heads = 1, Index dim = 1) {
  Tensor<float, 4> result({1, heads, static_cast<Index>(values.size()) / heads / dim, dim});
  std::copy(values.begin(), values.end(), result.data());
  return result;
}

template <class T, int Rank>
std::vector<T> values_of(const Tensor<T, Rank>& t) {
  return {t.data(), t.data() + t.size()};
}

Tensor<bool, 4> keep_of(const std::vector<bool>& values, const Shape<4>& shape) {
  Tensor<bool, 4> result(shape);
  std::copy(values.begin(), values.end(), result.data());
  return result;
}

auto near(const std::vector<float>& expected, float tolerance = 1e-5f) {
  return Pointwise(FloatNear(tolerance), expected);
}

constexpr Observe kEverything{.lse = true, .entropy = true, .attn_weights = true};

class Attention : public test::OnEveryTarget {
 protected:
  // Attention of q_len uniform queries over the values, one head, dim 1.
  static AttentionResult uniform(Index q_len, const std::vector<float>& values, AttentionOptions options) {
    const auto zeros_q = tensor(std::vector<float>(static_cast<std::size_t>(q_len), 0.0f));
    const auto zeros_k = tensor(std::vector<float>(values.size(), 0.0f));
    options.observe = kEverything;
    return attention(zeros_q, zeros_k, tensor(values), options);
  }
};

// https://github.com/pytorch/pytorch/issues/160064
TEST_P(Attention, GivesZerosForARowThatIsMaskedThroughout) {
  const auto q = tensor({1, 0, 0, 1}, 1, 2), k = tensor({1, 0, 0, 1}, 1, 2), v = tensor({1, 2, 3, 4}, 1, 2);
  const auto keep = keep_of({false, false, true, true}, {1, 1, 2, 2});
  for (bool observe : {false, true}) {
    const auto r = attention(q, k, v, {.mask = {.keep = keep.view()}, .observe = observe ? kEverything : Observe{}});
    EXPECT_THAT(values_of(r.out), near({0, 0, 2.33952f, 3.33952f}));
    if (!observe) continue;
    EXPECT_THAT(values_of(r.attn_weights), near({0, 0, 0.33024f, 0.66976f}));
    EXPECT_EQ(r.lse(0, 0, 0), -kInfinity);
    EXPECT_NEAR(r.lse(0, 0, 1), 1.10794f, 1e-5f);
    EXPECT_EQ(r.entropy(0, 0, 0), 0);
    EXPECT_NEAR(r.entropy(0, 0, 1), -(0.33024 * std::log(0.33024) + 0.66976 * std::log(0.66976)), 1e-4);
  }
}

// https://github.com/pytorch/pytorch/issues/99282
TEST_P(Attention, NeedsNoMaskArrayToBeCausal) {
  const auto r = uniform(3, {1, 2, 4}, {.mask = {.causal = true}});
  EXPECT_THAT(values_of(r.out), near({1, 1.5f, 2.33333f}));
  EXPECT_THAT(values_of(r.attn_weights), near({1, 0, 0, .5f, .5f, 0, 1 / 3.f, 1 / 3.f, 1 / 3.f}));
  EXPECT_THAT(values_of(r.lse), near({0, std::log(2.f), std::log(3.f)}));
}

// https://github.com/pytorch/pytorch/issues/108108
TEST_P(Attention, AlignsCausalLowerRightUnlessQStartSaysOtherwise) {
  EXPECT_THAT(values_of(uniform(2, {1, 2, 3, 4, 5}, {.mask = {.causal = true}}).out), near({2.5f, 3}));
  EXPECT_THAT(values_of(uniform(5, {1, 2}, {.mask = {.causal = true}}).out), near({0, 0, 0, 1, 1.5f}));
  EXPECT_THAT(values_of(uniform(2, {1, 2, 3, 4, 5}, {.mask = {.causal = true, .q_start = 0}}).out), near({1, 1.5f}));
  EXPECT_THAT(values_of(uniform(5, {1, 2}, {.mask = {.causal = true, .q_start = 0}}).out),
              near({1, 1.5f, 1.5f, 1.5f, 1.5f}));
}

// https://github.com/Dao-AILab/flash-attention/issues/1778
TEST_P(Attention, WritesTheRowsThatSeeNothing) {
  const auto zeros_q = tensor({0, 0, 0, 0}), zeros_k = tensor({0, 0}), v = tensor({1, 2});
  Tensor<float, 4> out({1, 1, 4, 1}, kNaN);
  Tensor<float, 3> lse({1, 1, 4}, kNaN);
  AttentionOutput output(out);
  output.lse = lse.view();
  Workspace workspace;
  attention_into(output, zeros_q, zeros_k, v, {.mask = {.causal = true}}, workspace);
  EXPECT_THAT(values_of(out), near({0, 0, 1, 1.5f}));
  EXPECT_THAT(values_of(lse), ElementsAre(-kInfinity, -kInfinity, 0, FloatNear(std::log(2.f), 1e-6f)));
}

TEST_P(Attention, TakesAPositionPerBatchEntry) {
  Tensor<float, 4> zeros({3, 1, 1, 1}, 0.0f), keys({3, 1, 4, 1}, 0.0f), values({3, 1, 4, 1});
  for (Index n = 0; n < 12; ++n) values.data()[n] = static_cast<float>(1 << n % 4);
  const std::vector<Index> starts{0, 2, -1};
  const auto r = attention(zeros, keys, values,
                           {.mask = {.causal = true, .q_start = TensorView<const Index, 1>(starts.data(), {3})}});
  EXPECT_THAT(values_of(r.out), near({1, 7 / 3.f, 0}));
}

// https://github.com/pytorch/pytorch/issues/92554
TEST_P(Attention, CombinesPaddingWithBiasWhicheverFormItTakes) {
  const auto minus_infinity = tensor({0, 0, -kInfinity});
  const CView<4> padding_bias(minus_infinity.data(), {1, 1, 1, 3});
  const auto keep = keep_of({true, true, false}, {1, 1, 1, 3});
  const Tensor<float, 4> zero_bias({1, 1, 3, 3}, 0.0f);
  for (const auto& options :
       {AttentionOptions{.attn_bias = padding_bias}, AttentionOptions{.mask = {.keep = keep.view()}},
        AttentionOptions{.attn_bias = zero_bias.view(), .mask = {.keep = keep.view()}}})
    EXPECT_THAT(values_of(uniform(3, {1, 2, 6}, options).out), near({1.5f, 1.5f, 1.5f}));
}

// https://github.com/pytorch/pytorch/issues/63271
TEST_P(Attention, KeepsTheRowsOfPaddedTokensDefined) {
  const std::vector<Index> lengths{2};
  const auto zeros = tensor(std::vector<float>(6, 0.0f), 2), v = tensor({1, 2, 6, 1, 2, 6}, 2);
  const auto r = attention(zeros, zeros, v, {.mask = {.causal = true, .valid_lens = lengths}});
  EXPECT_THAT(values_of(r.out), near({1, 1.5f, 1.5f, 1, 1.5f, 1.5f}));
}

// https://github.com/pytorch/pytorch/pull/187506
TEST_P(Attention, ReadsEveryLayoutOrRefusesIt) {
  const std::vector<float> expected_out{2.57521f, 2.26696f}, expected_lse{3.40761f, 1.86199f};
  const std::vector<float> q{1, 9, 2, 9, 0, 9, 1, 9}, k_transposed{1, 0, 1, 0, 1, 1}, v_reversed{3, 2, 1};
  const auto check_views = [&](CView<4> query, CView<4> key, CView<4> value) {
    const auto r = attention(query, key, value, {.scale = 1.0, .observe = {.lse = true}});
    EXPECT_THAT(values_of(r.out), near(expected_out));
    EXPECT_THAT(values_of(r.lse), near(expected_lse));
  };
  const auto packed_q = tensor({1, 2, 0, 1}, 1, 2), packed_k = tensor({1, 0, 0, 1, 1, 1}, 1, 2),
             packed_v = tensor({1, 2, 3});
  check_views(packed_q, packed_k, packed_v);
  const CView<4> reversed(v_reversed.data() + 2, {1, 1, 3, 1}, {0, 0, -1, 1});
  check_views(packed_q, packed_k, reversed);
  const CView<4> every_second(q.data(), {1, 1, 2, 2}, {0, 0, 4, 2}),
      transposed(k_transposed.data(), {1, 1, 3, 2}, {0, 0, 1, 3});
  EXPECT_THROW(attention(every_second, packed_k, packed_v), std::invalid_argument);
  EXPECT_THROW(attention(packed_q, transposed, packed_v), std::invalid_argument);
}

// https://github.com/pytorch/pytorch/issues/141219
TEST_P(Attention, TakesEmptyLengths) {
  const Tensor<float, 4> q({1, 1, 2, 4}, 1.0f), none({1, 1, 0, 4});
  for (bool causal : {false, true}) {
    const auto r =
        attention(q, none, Tensor<float, 4>({1, 1, 0, 3}), {.mask = {.causal = causal}, .observe = kEverything});
    EXPECT_THAT(r.out.shape(), ElementsAre(1, 1, 2, 3));
    EXPECT_THAT(values_of(r.out), near({0, 0, 0, 0, 0, 0}));
    EXPECT_THAT(values_of(r.lse), ElementsAre(-kInfinity, -kInfinity));
    EXPECT_THAT(values_of(r.entropy), ElementsAre(0, 0));
    EXPECT_EQ(r.attn_weights.size(), 0);
  }
  EXPECT_EQ(attention(none, q, q).out.size(), 0);
  const Tensor<float, 4> no_batch({0, 2, 3, 4});
  EXPECT_THAT(attention(no_batch, no_batch, no_batch).out.shape(), ElementsAre(0, 2, 3, 4));
  EXPECT_THROW(attention(Tensor<float, 4>({1, 1, 2, 0}), Tensor<float, 4>({1, 1, 2, 0}), q), std::invalid_argument);
}

// https://github.com/ohdearquant/lattice/issues/361
TEST_P(Attention, TakesSinksOfAnySize) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  const Tensor<float, 4> q({1, 2, 3, 4}, 0.5f), k({1, 2, 5, 4}, 0.5f), v({1, 2, 5, 4}, 2.0f);
  for (float size : {kLargest, kInfinity})
    for (Index valid_len : {0, 5}) {
      const std::vector<float> sinks{-size, size};
      const std::vector<Index> lengths{valid_len};
      const auto r = attention(
          q, k, v, {.sinks = CView<1>(sinks.data(), {2}), .mask = {.valid_lens = lengths}, .observe = kEverything});
      for (Index i = 0; i < 3; ++i) {
        ASSERT_EQ(r.out(0, 0, i, 0), valid_len == 0 ? 0 : 2) << "a sink that takes nothing";
        ASSERT_EQ(r.out(0, 1, i, 0), 0) << "a sink that takes everything";
        ASSERT_FLOAT_EQ(r.lse(0, 1, i), kLargest / 1.5f);
        ASSERT_EQ(r.entropy(0, 1, i), 0);
      }
    }
}

TEST_P(Attention, NeverHidesAKeyByAFiniteAlibi) {
  const auto v = tensor({1, 2, 6});
  const auto out = [&](float slope, Index position) {
    return values_of(attention(tensor({0.5}), tensor({0.5, 0.5, 0.5}), v,
                               {.alibi_slopes = CView<1>(&slope, {1}), .mask = {.q_start = position}})
                         .out);
  };
  constexpr float kLargest = std::numeric_limits<float>::max();
  EXPECT_THAT(out(kLargest, 2), ElementsAre(6)) << "the key at distance 0 has all the weight";
  EXPECT_THAT(out(kLargest, 3), ElementsAre(FloatEq(3))) << "every distance counts as the largest";
  EXPECT_THAT(out(kLargest, 5), ElementsAre(FloatEq(3)));
  EXPECT_THAT(out(1e38f, 3), ElementsAre(6)) << "the nearest key has all the weight";
  EXPECT_THAT(out(-1e38f, 2), ElementsAre(1)) << "the furthest";
}

TEST_P(Attention, NeverLetsAHiddenKeyWinOverAVeryLowScore) {
  const auto keep = keep_of({true, false}, {1, 1, 1, 2});
  const auto r = attention(tensor({-300}), tensor({200, 0}), tensor({7, -9}),
                           {.scale = 1.0, .mask = {.keep = keep.view()}, .observe = kEverything});
  EXPECT_EQ(r.out(0, 0, 0, 0), 7);
  EXPECT_THAT(values_of(r.attn_weights), ElementsAre(1, 0));
  EXPECT_EQ(r.lse(0, 0, 0), -60000);
}

TEST_P(Attention, TreatsAFiniteBiasAsVisibleHoweverLow) {
  for (float low : {-1e30f, -std::numeric_limits<float>::max()}) {
    const auto bias = tensor({low, low});
    const auto r =
        attention(tensor({0}), tensor({0, 0}), tensor({2, 4}), {.attn_bias = CView<4>(bias.data(), {1, 1, 1, 2})});
    EXPECT_EQ(r.out(0, 0, 0, 0), 3);
  }
}

// Sums of small integers are exact in plain code, and so is what follows of two scores that are equal.
TEST_P(Attention, RoundsNoTermOfAScore) {
  for (Index head_dim : {32, 96, 128, 256, 1024}) {
    const Tensor<float, 4> q({1, 1, 1, head_dim}, 1.0f);
    Tensor<float, 4> k({1, 1, 2, head_dim}, 1.0f), v({1, 1, 2, 1});
    for (Index d = 0; d < head_dim; ++d) k(0, 0, 1, d) = static_cast<float>(d % 2 * 2);
    v(0, 0, 0, 0) = 1, v(0, 0, 1, 0) = -1;
    EXPECT_EQ(attention(q, k, v).out(0, 0, 0, 0), 0) << head_dim;
    const auto one_key = [](const Tensor<float, 4>& t) { return t.view().slice(2, 0, 1); };
    const auto r =
        attention(q, one_key(k), one_key(v), {.scale = 1 / static_cast<double>(head_dim), .observe = {.lse = true}});
    EXPECT_FLOAT_EQ(r.lse(0, 0, 0), 1) << head_dim;
  }
}

TEST_P(Attention, TakesSoftcapsAtBothEndsOfTheirRange) {
  const std::vector<float> large_q{1e-3f}, large_k{1e3f, 0}, values{1, 2}, small_q{1, 1}, small_k{30, -30, 0, 0};
  const auto row = [](const std::vector<float>& x, Index len, Index dim) {
    return CView<4>(x.data(), {1, 1, len, dim});
  };
  const AttentionOptions large{.scale = 1.0, .softcap = 1e38}, small{.scale = 1.0, .softcap = 1e-38};
  EXPECT_NEAR(attention(row(large_q, 1, 1), row(large_k, 2, 1), row(values, 2, 1), large).out(0, 0, 0, 0), 1.26894142f,
              1e-5f);
  EXPECT_EQ(attention(row(small_q, 1, 2), row(small_k, 2, 2), row(values, 2, 1), small).out(0, 0, 0, 0), 1.5f);
}

TEST_P(Attention, KeepsEntropyFiniteAfterATileOfTheLowestBias) {
  std::vector<float> bias(100, -std::numeric_limits<float>::max());
  bias[98] = bias[99] = 0;
  const auto r = uniform(1, std::vector<float>(100, 1.0f), {.attn_bias = CView<4>(bias.data(), {1, 1, 1, 100})});
  EXPECT_NEAR(r.entropy(0, 0, 0), std::log(2.0f), 1e-6f);
}

TEST_P(Attention, DoesNotOverflowWhereTheMeanOfTheValuesIsFinite) {
  const std::vector<float> values(400, 1e36f);
  EXPECT_FLOAT_EQ(uniform(1, values, {}).out(0, 0, 0, 0), 1e36f);
  // A key that outweighs an earlier one by 5.5 nats, below the lag that the running maximum is allowed.
  const auto r = attention(tensor({1}), tensor({0, 5.5f}), tensor({2e36f, 2e36f}), {.scale = 1.0});
  EXPECT_FLOAT_EQ(r.out(0, 0, 0, 0), 2e36f);
}

TEST_P(Attention, AddsTheBiasUnscaled) {  // https://github.com/facebookresearch/xformers/issues/576
  const auto bias = tensor({std::log(3.f), 0});
  const auto r = attention(tensor({0}), tensor({0, 0}), tensor({1, 0}),
                           {.scale = 0.5, .attn_bias = CView<4>(bias.data(), {1, 1, 1, 2}), .observe = kEverything});
  EXPECT_THAT(values_of(r.attn_weights), near({0.75f, 0.25f}));
}

// https://github.com/huggingface/transformers/issues/39408
TEST_P(Attention, CountsTheQueryItselfIntoItsWindow) {
  const auto r = uniform(6, {1, 2, 4, 8, 16, 32}, {.mask = {.causal = true, .window = Window{.left = 2, .right = 0}}});
  EXPECT_THAT(values_of(r.out), near({1, 1.5f, 2.33333f, 4.66667f, 9.33333f, 18.66667f}));
}

// https://github.com/Dao-AILab/flash-attention/issues/1116
TEST_P(Attention, RefusesANegativeWindow) {
  EXPECT_THROW(uniform(2, {1, 2}, {.mask = {.window = Window{.right = -3}}}), std::invalid_argument);
}

// https://github.com/ggml-org/llama.cpp/pull/29034
TEST_P(Attention, CapsNoPadding) {
  for (Index kv_len : {65, 97, 129}) {
    const auto r = uniform(1, std::vector<float>(static_cast<std::size_t>(kv_len), 1.0f), {.softcap = 1.0});
    EXPECT_EQ(r.out(0, 0, 0, 0), 1);
  }
}

// https://github.com/onnx/onnx/pull/7274
TEST_P(Attention, RepeatsKeyValueHeadsInsteadOfTilingThem) {
  EXPECT_THAT(values_of(attention(tensor({0, 0, 0, 0}, 4), tensor({0, 0}, 2), tensor({10, 20}, 2)).out),
              ElementsAre(10, 10, 20, 20));
  EXPECT_THAT(values_of(attention(tensor({0, 0, 0}, 3), tensor({0}), tensor({10})).out), ElementsAre(10, 10, 10));
}

// https://github.com/pytorch/pytorch/pull/169222
TEST_P(Attention, ReadsNothingPastTheLastKey) {
  for (Index kv_len : {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 38, 63, 64, 65, 70, 95, 96, 97, 127, 128, 129})
    for (Index q_len : {1, 8, 33}) {
      test::PoisonedTensor q({1, 1, q_len, 2}, test::Layout::kCacheSlice),
          k({1, 1, kv_len, 2}, test::Layout::kCacheSlice), v({1, 1, kv_len, 1}, test::Layout::kCacheSlice);
      for (Index i = 0; i < q_len; ++i) q.view()(0, 0, i, 0) = q.view()(0, 0, i, 1) = 0;
      for (Index j = 0; j < kv_len; ++j) k.view()(0, 0, j, 0) = k.view()(0, 0, j, 1) = 0, v.view()(0, 0, j, 0) = 1;
      const auto r = attention(q.view(), k.view(), v.view());
      for (Index i = 0; i < q_len; ++i) ASSERT_EQ(r.out(0, 0, i, 0), 1) << kv_len;
    }
}

// The worked example of the contract: causal, three keys of which the last is padding.
TEST_P(Attention, AlignsByKvLenWhateverValidLensSays) {
  const std::vector<Index> lengths{2};
  EXPECT_THAT(values_of(uniform(3, {1, 2, 6}, {.mask = {.causal = true, .valid_lens = lengths}}).out),
              near({1, 1.5f, 1.5f}));
}

// https://github.com/NVIDIA/FasterTransformer/issues/270
TEST_P(Attention, DoesNotFeelHowFarTheKeysArePadded) {
  test::Random random(5);
  const auto q = random.tensor<4>({1, 2, 4, 8});
  Tensor<float, 4> k({1, 2, 50, 8}, kNaN), v({1, 2, 50, 8}, kInfinity);
  for (Index h = 0; h < 2; ++h)
    for (Index j = 0; j < 5; ++j)
      for (Index d = 0; d < 8; ++d) k(0, h, j, d) = random.normal(), v(0, h, j, d) = random.normal();
  const std::vector<Index> lengths{5};
  const auto padded = attention(q, k, v, {.mask = {.valid_lens = lengths}});
  const auto exact = attention(q, k.view().slice(2, 0, 5), v.view().slice(2, 0, 5));
  EXPECT_EQ(values_of(padded.out), values_of(exact.out));
}

INSTANTIATE_TEST_SUITE_P(Targets, Attention, testing::ValuesIn(kernels::supported_targets()),
                         test::OnEveryTarget::name);

}  // namespace
}  // namespace qkv
