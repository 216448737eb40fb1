// What holds for every attention, whatever the numbers.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "qkv/attention/attention.h"
#include "support/random.h"
#include "support/targets.h"

namespace qkv {
namespace {

class Properties : public test::OnEveryTarget {
 protected:
  test::Random random_{99};
  Tensor<float, 4> q_ = random_.tensor<4>({2, 4, 61, 24}), k_ = random_.tensor<4>({2, 4, 150, 24}),
                   v_ = random_.tensor<4>({2, 4, 150, 40});
};

void expect_near(CView<4> a, CView<4> b, float tolerance) {
  ASSERT_EQ(a.shape(), b.shape());
  for (Index n = 0; n < a.shape(0); ++n)
    for (Index h = 0; h < a.shape(1); ++h)
      for (Index i = 0; i < a.shape(2); ++i)
        for (Index d = 0; d < a.shape(3); ++d) ASSERT_NEAR(a(n, h, i, d), b(n, h, i, d), tolerance);
}

TEST_P(Properties, WeightsOfARowSumToOne) {
  const auto r = attention(q_, k_, v_, {.mask = {.causal = true}, .observe = {.attn_weights = true}});
  for (Index h = 0; h < 4; ++h)
    for (Index i = 0; i < 61; ++i) {
      const float* row = &r.attn_weights(1, h, i, 0);
      ASSERT_NEAR(std::accumulate(row, row + 150, 0.0), 1, 1e-6);
    }
}

// Denormal numbers would take a processor a hundred times as long as others. The least weight is 2^-100 over a row_sum of at most 150 * 2^8.
template <class T>
void expect_weights_above(T least, double scale, const Tensor<T, 4>& q, const Tensor<T, 4>& k, const Tensor<T, 4>& v) {
  const auto r = attention(q, k, v, {.scale = scale, .observe = {.attn_weights = true}});
  Index num_zeros = 0;
  for (Index n = 0; n < r.attn_weights.size(); ++n) {
    const T weight = r.attn_weights.data()[n];
    num_zeros += weight == 0;
    ASSERT_TRUE(weight == 0 || weight > least) << weight;
  }
  EXPECT_GT(num_zeros, 0);
}

TEST_P(Properties, NoWeightIsAnywhereNearDenormal) {
  expect_weights_above(0x1p-116f, 8, q_, k_, v_);
  expect_weights_above(0x1p-916, 80, random_.tensor<4, double>({2, 4, 61, 24}),
                       random_.tensor<4, double>({2, 4, 150, 24}), random_.tensor<4, double>({2, 4, 150, 40}));
}

TEST_P(Properties, TheOrderOfTheKeysDoesNotMatter) {
  const auto reverse = [](const Tensor<float, 4>& t) {
    const auto& s = t.shape();
    return CView<4>(t.data() + (s[2] - 1) * s[3], s, {s[1] * s[2] * s[3], s[2] * s[3], -s[3], 1});
  };
  expect_near(attention(q_, reverse(k_), reverse(v_)).out, attention(q_, k_, v_).out, 2e-6f);
}

TEST_P(Properties, AConstantAddedToARowOfBiasChangesNothing) {
  const Tensor<float, 4> bias({1, 1, 61, 1}, 3.0f);
  expect_near(attention(q_, k_, v_, {.attn_bias = bias.view()}).out, attention(q_, k_, v_).out, 2e-6f);
}

TEST_P(Properties, FutureKeysDoNotMatterWhenCausal) {
  const AttentionOptions options{.mask = {.causal = true, .q_start = 0}};
  const auto whole = attention(q_, k_, v_, options);
  const auto cut = attention(q_, k_.view().slice(2, 0, 61), v_.view().slice(2, 0, 61), options);
  expect_near(whole.out, cut.out, 0);
}

TEST_P(Properties, GroupedHeadsEqualRepeatedHeads) {
  const auto k = k_.view().slice(1, 0, 1), v = v_.view().slice(1, 0, 1);
  const auto repeat = [](CView<4> one) {
    auto strides = one.strides();
    strides[1] = 0;
    return CView<4>(one.data(), {one.shape(0), 4, one.shape(2), one.shape(3)}, strides);
  };
  expect_near(attention(q_, k, v).out, attention(q_, repeat(k), repeat(v)).out, 0);
}

TEST_P(Properties, StridedInputsGiveTheBitsOfPackedOnes) {
  Tensor<float, 4> q({2, 61, 4, 24}), k({2, 150, 4, 24}), v({2, 150, 4, 40});  // [batch, len, heads, dim]
  const auto fill = [](Tensor<float, 4>& to, const Tensor<float, 4>& from) {
    for (Index b = 0; b < to.shape(0); ++b)
      for (Index i = 0; i < to.shape(1); ++i)
        for (Index h = 0; h < to.shape(2); ++h)
          for (Index d = 0; d < to.shape(3); ++d) to(b, i, h, d) = from(b, h, i, d);
  };
  fill(q, q_), fill(k, k_), fill(v, v_);
  const auto heads = [](const Tensor<float, 4>& t) { return t.view().swap_axes(1, 2); };
  expect_near(attention(heads(q), heads(k), heads(v)).out, attention(q_, k_, v_).out, 0);
}

// Rows of outputs so far apart take another way out of the kernel.
template <class T>
void expect_same_in_rows_a_page_apart(const Tensor<T, 4>& q, const Tensor<T, 4>& k, const Tensor<T, 4>& v) {
  const auto expected = attention(q, k, v).out;
  const auto& [batch, heads, len, dim] = expected.shape();
  constexpr Index kRow = 4096 / Index{sizeof(T)};
  ASSERT_LT(heads * dim, kRow);
  Tensor<T, 3> memory({batch, len, kRow}, T{7});
  Workspace workspace;
  attention_into(TensorView<T, 4>(memory.data(), expected.shape(), {len * kRow, dim, kRow, 1}), q.view(), k.view(),
                 v.view(), {}, workspace);
  for (Index b = 0; b < batch; ++b)
    for (Index i = 0; i < len; ++i)
      for (Index c = 0; c < kRow; ++c)
        ASSERT_EQ(memory(b, i, c), c < heads * dim ? expected(b, c / dim, i, c % dim) : 7) << i << ", " << c;
}

TEST_P(Properties, OutputsMayLieAPageApart) {
  expect_same_in_rows_a_page_apart(q_, k_, v_);
  const auto in_double = [](const Tensor<float, 4>& t) {
    Tensor<double, 4> result(t.shape());
    std::copy_n(t.data(), t.size(), result.data());
    return result;
  };
  expect_same_in_rows_a_page_apart(in_double(q_), in_double(k_), in_double(v_));
}

// A view into a larger tensor of 7s, no axis packed (the last of rank 4 has to be).
template <int Rank>
struct Spread {
  explicit Spread(const Shape<Rank>& shape) {
    Shape<Rank> larger = shape;
    for (Index& length : larger) length = 2 * length + 1;
    memory = Tensor<float, Rank>(larger, 7.0f);
    Shape<Rank> strides = memory.view().strides();
    for (int axis = 0; axis < (Rank == 4 ? 3 : Rank); ++axis) strides[axis] *= 2;
    view = View<Rank>(memory.data(), shape, strides);
  }
  Tensor<float, Rank> memory;
  View<Rank> view{nullptr, {}};
};

TEST_P(Properties, EveryOutputMayHaveAnyStrides) {
  const AttentionOptions options{.mask = {.causal = true},
                                 .observe = {.lse = true, .entropy = true, .attn_weights = true}};
  const auto expected = attention(q_, k_, v_, options);
  Spread<4> out({2, 4, 61, 40}), weights({2, 4, 61, 150});
  Spread<3> lse({2, 4, 61}), entropy({2, 4, 61});
  AttentionOutput output(out.view);
  output.lse = lse.view, output.entropy = entropy.view, output.attn_weights = weights.view;
  Workspace workspace;
  attention_into(output, q_, k_, v_, options, workspace);
  expect_near(out.view, expected.out, 0);
  expect_near(weights.view, expected.attn_weights, 0);
  for (Index b = 0; b < 2; ++b)
    for (Index h = 0; h < 4; ++h)
      for (Index i = 0; i < 61; ++i) {
        ASSERT_EQ(lse.view(b, h, i), expected.lse(b, h, i));
        ASSERT_EQ(entropy.view(b, h, i), expected.entropy(b, h, i));
      }
  const auto count_written = [](const auto& t) { return t.size() - std::count(t.data(), t.data() + t.size(), 7.0f); };
  EXPECT_EQ(count_written(out.memory), expected.out.size()) << "wrote elsewhere";
  EXPECT_EQ(count_written(weights.memory), expected.attn_weights.size());
  EXPECT_EQ(count_written(lse.memory), expected.lse.size());
  EXPECT_EQ(count_written(entropy.memory), expected.entropy.size());
}

// [b, h, j, i] of a tensor [b, h, i, j].
template <class T>
Tensor<T, 4> transposed(const Tensor<T, 4>& t) {
  Tensor<T, 4> result({t.shape(0), t.shape(1), t.shape(3), t.shape(2)});
  for (Index b = 0; b < t.shape(0); ++b)
    for (Index h = 0; h < t.shape(1); ++h)
      for (Index i = 0; i < t.shape(2); ++i)
        for (Index j = 0; j < t.shape(3); ++j) result(b, h, j, i) = t(b, h, i, j);
  return result;
}

// The same values from the other end, read backwards along both of the last axes.
template <class T>
TensorView<const T, 4> backwards(Tensor<T, 4>& t) {
  std::reverse(t.data(), t.data() + t.size());
  Shape<4> strides = t.view().strides();
  for (Index& stride : strides) stride = -stride;
  return {t.data() + t.size() - 1, t.shape(), strides};
}

TEST_P(Properties, BiasAndKeepMayLieInMemoryAnyWay) {
  auto bias = random_.tensor<4>({2, 4, 61, 150});
  Tensor<bool, 4> keep({2, 4, 61, 150});
  for (Index n = 0; n < keep.size(); ++n) keep.data()[n] = random_.chance(0.7);
  const auto run = [&](CView<4> b, TensorView<const bool, 4> m) {
    return attention(q_, k_, v_, {.attn_bias = b, .mask = {.keep = m}}).out;
  };
  const auto packed = run(bias.view(), keep.view());
  const auto bias_t = transposed(bias);
  const auto keep_t = transposed(keep);
  expect_near(run(bias_t.view().swap_axes(2, 3), keep_t.view().swap_axes(2, 3)), packed, 0);
  const auto bias_alone = attention(q_, k_, v_, {.attn_bias = bias.view()}).out;
  expect_near(attention(q_, k_, v_, {.attn_bias = bias_t.view().swap_axes(2, 3)}).out, bias_alone, 0);
  expect_near(run(backwards(bias), backwards(keep)), packed, 0);
}

INSTANTIATE_TEST_SUITE_P(Targets, Properties, testing::ValuesIn(kernels::supported_targets()),
                         test::OnEveryTarget::name);

}  // namespace
}  // namespace qkv
