// The kinds of MultiHeadAttention (scoring, head_split, head_dim, dropout) against the formula in plain loops.

#include <numeric>

#include "nn/layer_support.h"
#include "qkv/nn/multi_head_attention.h"
#include "support/poison.h"

namespace qkv::test {
namespace {

using Vector = std::vector<double>;

double dot(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

Vector times(const Tensor<float, 2>& weight, const Vector& x) {
  Vector y(static_cast<std::size_t>(weight.shape(0)));
  for (Index o = 0; o < weight.shape(0); ++o)
    for (Index d = 0; d < weight.shape(1); ++d)
      y[static_cast<std::size_t>(o)] += weight(o, d) * x[static_cast<std::size_t>(d)];
  return y;
}

// One head's query, key or value: rows head * dim .. of the projection times what that head may read of x.
Vector project_head(const Linear& projection, HeadSplit split, Index num_heads, Index head, CView<1> x) {
  const Index dim = projection.out_dim() / num_heads;
  const Index first = split == HeadSplit::kSplitThenProject ? head * projection.in_dim() : 0;
  Vector y;
  for (Index o = head * dim; o < (head + 1) * dim; ++o) {
    double sum = projection.bias ? (*projection.bias)(o) : 0;
    for (Index d = 0; d < projection.in_dim(); ++d) sum += projection.weight(o, d) * static_cast<double>(x(first + d));
    y.push_back(sum);
  }
  return y;
}

double score(const LayerScoring& scoring, const Vector& q, const Vector& k, double scale) {
  if (std::holds_alternative<CosineScoring>(scoring)) return scale * dot(q, k) / std::sqrt(dot(q, q) * dot(k, k));
  const auto* additive = std::get_if<AdditiveWeights>(&scoring);
  if (!additive) return scale * dot(q, k);
  const Vector from_q = times(additive->w_q, q), from_k = times(additive->w_k, k);
  double sum = 0;
  for (std::size_t n = 0; n < from_q.size(); ++n)
    sum += additive->w_v(static_cast<Index>(n)) * std::tanh(from_q[n] + from_k[n]);
  return scale * sum;
}

struct Expected {
  Tensor<double, 3> out;
  Tensor<double, 4> attn_weights;
};

using Visible = std::function<bool(Index b, Index h, Index i, Index j)>;

// The whole layer for one query of one head at a time.
Expected plain_attention(
    const MultiHeadAttention& layer, CView<3> query, CView<3> key, CView<3> value, double scale,
    const Visible& visible = [](Index, Index, Index, Index) { return true; }) {
  const Index batch = query.shape(0), q_len = query.shape(1), kv_len = key.shape(1), num_heads = layer.num_heads;
  const Index num_kv_heads = layer.num_kv_heads.value_or(num_heads), group = num_heads / num_kv_heads;
  const Index v_head_dim = layer.v_proj.out_dim() / num_kv_heads;
  Tensor<double, 3> merged({batch, q_len, num_heads * v_head_dim}, 0);
  Tensor<double, 4> weights({batch, num_heads, q_len, kv_len}, 0);
  for (Index b = 0; b < batch; ++b)
    for (Index h = 0; h < num_heads; ++h)
      for (Index i = 0; i < q_len; ++i) {
        const Vector q = project_head(layer.q_proj, layer.head_split, num_heads, h, query.select(0, b).select(0, i));
        double sum = 0;
        for (Index j = 0; j < kv_len; ++j) {
          if (!visible(b, h, i, j)) continue;
          const CView<1> x = key.select(0, b).select(0, j);
          const Vector k = project_head(layer.k_proj, layer.head_split, num_kv_heads, h / group, x);
          sum += weights(b, h, i, j) = std::exp(score(layer.scoring, q, k, scale));
        }
        for (Index j = 0; j < kv_len; ++j) {
          if (!visible(b, h, i, j)) continue;
          weights(b, h, i, j) /= sum;
          const CView<1> x = value.select(0, b).select(0, j);
          const Vector v = project_head(layer.v_proj, layer.head_split, num_kv_heads, h / group, x);
          for (Index d = 0; d < v_head_dim; ++d)
            merged(b, i, h * v_head_dim + d) += weights(b, h, i, j) * v[static_cast<std::size_t>(d)];
        }
      }
  return {layer.out_proj ? linear_reference(*layer.out_proj, merged) : std::move(merged), std::move(weights)};
}

void expect_agrees(const MultiHeadAttentionResult& got, const Expected& expected) {
  expect_near(got.out, expected.out, 5e-6);
  expect_near(got.attn_weights, expected.attn_weights, 3e-6);
}

constexpr Observe kWeights{.attn_weights = true};

class MultiHeadAttentionKinds : public testing::Test {
 protected:
  // Every size different, so that none can stand for another: widths 12, 8 and 20, 4 heads of 5 (6 for values), 2
  // heads of keys and values.
  MultiHeadAttention layer(HeadSplit split = HeadSplit::kProjectThenSplit) {
    const bool splits_first = split == HeadSplit::kSplitThenProject;
    return {.q_proj = random_linear(random_, 20, splits_first ? 3 : 12),
            .k_proj = random_linear(random_, 10, splits_first ? 4 : 8, false),
            .v_proj = random_linear(random_, 12, splits_first ? 10 : 20),
            .out_proj = random_linear(random_, 7, 24, false),
            .num_heads = 4,
            .num_kv_heads = 2,
            .head_split = split};
  }

  AdditiveWeights additive(Index head_dim, Index k_head_dim) {
    return {random_.tensor<2>({9, head_dim}), random_.tensor<2>({9, k_head_dim}), random_.tensor<1>({9})};
  }

  Random random_{31};
  Tensor<float, 3> query_ = random_.tensor<3>({2, 5, 12}), key_ = random_.tensor<3>({2, 6, 8}),
                   value_ = random_.tensor<3>({2, 6, 20});
};

TEST_F(MultiHeadAttentionKinds, BiasPerProjectionAndHeadsOfAnyWidth) {
  const auto layer = this->layer();
  const auto got = forward(layer, query_, key_, value_, {.observe = kWeights});
  EXPECT_EQ(got.out.shape(), (Shape<3>{2, 5, 7}));
  expect_agrees(got, plain_attention(layer, query_, key_, value_, 1 / std::sqrt(5.0)));
}

TEST_F(MultiHeadAttentionKinds, PlainDotProductIsScaleOne) {
  const auto layer = this->layer();
  expect_agrees(forward(layer, query_, key_, value_, {.scale = 1.0, .observe = kWeights}),
                plain_attention(layer, query_, key_, value_, 1));
  expect_agrees(forward(layer, query_, key_, value_, {.scale = -0.3, .observe = kWeights}),
                plain_attention(layer, query_, key_, value_, -0.3));
}

TEST_F(MultiHeadAttentionKinds, Cosine) {
  auto layer = this->layer();
  layer.scoring = CosineScoring{};
  expect_agrees(forward(layer, query_, key_, value_, {.observe = kWeights}),
                plain_attention(layer, query_, key_, value_, 1));
  expect_agrees(forward(layer, query_, key_, value_, {.scale = 10.0, .observe = kWeights}),
                plain_attention(layer, query_, key_, value_, 10));
}

TEST_F(MultiHeadAttentionKinds, AdditiveWithParametersOfTheLayer) {
  auto layer = this->layer();
  layer.scoring = additive(5, 5);
  expect_agrees(forward(layer, query_, key_, value_, {.observe = kWeights}),
                plain_attention(layer, query_, key_, value_, 1));
}

TEST_F(MultiHeadAttentionKinds, AdditiveTakesKeysOfAnotherHeadDim) {
  auto layer = this->layer();
  layer.k_proj = random_linear(random_, 6, 8);
  layer.scoring = additive(5, 3);
  expect_agrees(forward(layer, query_, key_, value_, {.observe = kWeights}),
                plain_attention(layer, query_, key_, value_, 1));
}

TEST_F(MultiHeadAttentionKinds, AdditiveWeightsThatDoNotFitAreRefusedBeforeAnyWork) {
  auto layer = this->layer();
  layer.scoring = additive(4, 5);
  EXPECT_THAT(invalid([&] { forward(layer, query_, key_, value_); }),
              holds("w_q.shape[1] (head_dim): got 4, expected 5"));
  layer.scoring = additive(5, 6);
  EXPECT_THAT(invalid([&] { forward(layer, query_, key_, value_); }),
              holds("w_k.shape[1] (head_dim): got 6, expected 5"));
}

TEST_F(MultiHeadAttentionKinds, SplitThenProjectGivesEachHeadItsSliceAndItsMatrix) {
  const auto layer = this->layer(HeadSplit::kSplitThenProject);
  const auto got = forward(layer, query_, key_, value_, {.observe = kWeights});
  EXPECT_EQ(got.out.shape(), (Shape<3>{2, 5, 7}));
  expect_agrees(got, plain_attention(layer, query_, key_, value_, 1 / std::sqrt(5.0)));
}

// Each head's (d_model / h)^2 matrices: 3 heads of a model of 12.
TEST_F(MultiHeadAttentionKinds, SplitThenProjectIsProjectThenSplitWithBlockDiagonalMatrices) {
  const auto square = [&] { return random_linear(random_, 12, 4); };
  const auto block_diagonal = [](const Linear& heads) {
    Linear whole{.weight = Tensor<float, 2>({12, 12}, 0), .bias = heads.bias->copy()};
    for (Index o = 0; o < 12; ++o)
      for (Index d = 0; d < 4; ++d) whole.weight(o, o / 4 * 4 + d) = heads.weight(o, d);
    return whole;
  };
  const MultiHeadAttention slices{.q_proj = square(),
                                  .k_proj = square(),
                                  .v_proj = square(),
                                  .num_heads = 3,
                                  .head_split = HeadSplit::kSplitThenProject};
  const MultiHeadAttention whole{.q_proj = block_diagonal(slices.q_proj),
                                 .k_proj = block_diagonal(slices.k_proj),
                                 .v_proj = block_diagonal(slices.v_proj),
                                 .num_heads = 3};
  expect_near(forward(slices, query_, query_, query_).out, forward(whole, query_, query_, query_).out, 2e-6);
}

TEST_F(MultiHeadAttentionKinds, WithOneHeadBothReadingsAreTheSame) {
  MultiHeadAttention layer{.q_proj = random_linear(random_, 6, 12),
                           .k_proj = random_linear(random_, 6, 12),
                           .v_proj = random_linear(random_, 6, 12),
                           .num_heads = 1};
  const auto expected = forward(layer, query_, query_, query_);
  layer.head_split = HeadSplit::kSplitThenProject;
  expect_same_bits(forward(layer, query_, query_, query_).out, expected.out);
}

TEST_F(MultiHeadAttentionKinds, SplitThenProjectReadsStridedInputAndAnyNumberOfThreads) {
  const auto layer = this->layer(HeadSplit::kSplitThenProject);
  const auto expected = forward(layer, query_, key_, value_, {}, {.executor = &calling_thread_executor()});
  const PoisonedTensor memory({2, 5, 3, 12}, Layout::kInterleaved);
  for (Index b = 0; b < 2; ++b)
    for (Index i = 0; i < 5; ++i)
      for (Index d = 0; d < 12; ++d) memory.view()(b, i, 1, d) = query_(b, i, d);
  TbbExecutor executor(3);
  const CView<3> strided = memory.view().select(2, 1);
  expect_near(forward(layer, strided, key_, value_, {}, {.executor = &executor}).out, expected.out, 2e-6);
  expect_same_bits(forward(layer, query_, key_, value_, {}, {.executor = &executor}).out, expected.out);
}

TEST_F(MultiHeadAttentionKinds, SplitThenProjectRefusesAnInputThatIsNotAllSlices) {
  auto layer = this->layer(HeadSplit::kSplitThenProject);
  EXPECT_THAT(invalid([&] { forward(layer, key_, key_, value_); }),
              holds("multi_head_attention: query.shape[2] (width): got 8, expected 12", "4 slices"));
  EXPECT_THAT(invalid([&] { forward(layer, query_, query_, value_); }),
              holds("key.shape[2] (width): got 12, expected 8", "2 slices"));
}

TEST_F(MultiHeadAttentionKinds, ValidLensForEachQuery) {
  const auto layer = this->layer();
  Tensor<Index, 2> lengths({2, 5});
  for (Index b = 0; b < 2; ++b)
    for (Index i = 0; i < 5; ++i) lengths(b, i) = 1 + (3 * b + 2 * i) % 6;
  const TensorView<const Index, 2> view = lengths;
  expect_agrees(forward(layer, query_, key_, value_, {.mask = {.valid_lens = view}, .observe = kWeights}),
                plain_attention(layer, query_, key_, value_, 1 / std::sqrt(5.0),
                                [&](Index b, Index, Index i, Index j) { return j < lengths(b, i); }));
}

TEST_F(MultiHeadAttentionKinds, BooleanAndAdditiveMasksHideTheSameKeysUnderEveryScoring) {
  auto layer = this->layer();
  Tensor<bool, 4> keep({2, 4, 5, 6});
  Tensor<float, 4> attn_bias({2, 4, 5, 6});
  for (Index n = 0; n < keep.size(); ++n) {
    keep.data()[n] = random_.chance(0.6) || n % 6 == 2;
    attn_bias.data()[n] = keep.data()[n] ? 0 : -kInfinity;
  }
  const auto visible = [&](Index b, Index h, Index i, Index j) { return keep(b, h, i, j); };
  for (int kind = 0; kind < 2; ++kind) {
    if (kind == 0) layer.scoring = CosineScoring{};
    if (kind == 1) layer.scoring = additive(5, 5);
    const auto expected = plain_attention(layer, query_, key_, value_, 1, visible);
    const TensorView<const bool, 4> view = keep;
    expect_agrees(forward(layer, query_, key_, value_, {.mask = {.keep = view}, .observe = kWeights}), expected);
    expect_agrees(forward(layer, query_, key_, value_, {.attn_bias = attn_bias.view(), .observe = kWeights}), expected);
  }
}

TEST_F(MultiHeadAttentionKinds, AnUnbatchedSequenceIsABatchOfOne) {
  const auto layer = this->layer();
  const CView<2> query = query_.view().select(0, 1), key = key_.view().select(0, 1), value = value_.view().select(0, 1);
  const auto got = forward(layer, query, key, value, {.observe = kWeights});
  const auto batched = forward(layer, query_, key_, value_);
  ASSERT_EQ(got.out.shape(), (Shape<3>{1, 5, 7}));
  EXPECT_EQ(got.attn_weights.shape(), (Shape<4>{1, 4, 5, 6}));
  for (Index i = 0; i < 5; ++i)
    for (Index d = 0; d < 7; ++d) EXPECT_NEAR(got.out(0, i, d), batched.out(1, i, d), 2e-6);
}

// "The first takes word embeddings, each next one the output of the layer below."
TEST_F(MultiHeadAttentionKinds, LayersStack) {
  const MultiHeadAttention first{.q_proj = random_linear(random_, 16, 12),
                                 .k_proj = random_linear(random_, 16, 12),
                                 .v_proj = random_linear(random_, 16, 12),
                                 .num_heads = 4};
  const MultiHeadAttention second{.q_proj = random_linear(random_, 16, 16),
                                  .k_proj = random_linear(random_, 16, 16),
                                  .v_proj = random_linear(random_, 16, 16),
                                  .num_heads = 2};
  const auto below = forward(first, query_, query_, query_).out;
  const auto above = forward(second, below, below, below, {.observe = kWeights});
  EXPECT_EQ(above.out.shape(), (Shape<3>{2, 5, 16}));
  expect_agrees(above, plain_attention(second, below, below, below, 1 / std::sqrt(8.0)));
}

// https://github.com/pytorch/pytorch/issues/124464
TEST_F(MultiHeadAttentionKinds, EvaluationIgnoresDropout) {
  auto layer = this->layer();
  const auto expected = forward(layer, query_, key_, value_).out;
  layer.dropout = 0.5;
  for (int call = 0; call < 10; ++call) expect_same_bits(forward(layer, query_, key_, value_).out, expected);
  layer.dropout = 0;
  expect_same_bits(forward(layer, query_, key_, value_, {}, {.training = true}).out, expected);
}

TEST_F(MultiHeadAttentionKinds, ATrainingRunDropsWeightsByItsSeed) {
  auto layer = this->layer();
  layer.dropout = 0.5;
  const auto run = [&](std::uint64_t seed) {
    return forward(layer, query_, key_, value_, {.observe = kWeights}, {.training = true, .seed = seed});
  };
  const auto first = run(1);
  expect_same_bits(run(1).out, first.out);
  const auto differs = [&](const Tensor<float, 3>& out) {
    return !std::equal(out.data(), out.data() + out.size(), first.out.data());
  };
  EXPECT_TRUE(differs(run(2).out));
  layer.dropout = 0;
  const auto kept = run(1);
  EXPECT_TRUE(differs(kept.out));
  EXPECT_TRUE(std::equal(kept.attn_weights.data(), kept.attn_weights.data() + kept.attn_weights.size(),
                         first.attn_weights.data()))
      << "weights are returned before dropout";
}

TEST_F(MultiHeadAttentionKinds, DropoutIsAProbability) {
  auto layer = this->layer();
  for (double dropout : {-0.1, 1.5, static_cast<double>(kNaN)}) {
    layer.dropout = dropout;
    EXPECT_THAT(invalid([&] { forward(layer, query_, key_, value_); }), holds("multi_head_attention: dropout: got"));
  }
}

// https://github.com/Unity-Technologies/ml-agents/pull/4840: 4 heads of 10 are refused, unless head_dim is explicit.
TEST_F(MultiHeadAttentionKinds, AnExplicitHeadDimNeedNotDivideTheWidth) {
  MultiHeadAttention layer{.q_proj = random_linear(random_, 12, 10),
                           .k_proj = random_linear(random_, 12, 10),
                           .v_proj = random_linear(random_, 12, 10),
                           .out_proj = random_linear(random_, 10, 12),
                           .num_heads = 4};
  const auto x = random_.tensor<3>({1, 3, 10});
  expect_agrees(forward(layer, x, x, x, {.observe = kWeights}), plain_attention(layer, x, x, x, 1 / std::sqrt(3.0)));
  layer.q_proj = random_linear(random_, 10, 10);
  EXPECT_THAT(invalid([&] { forward(layer, x, x, x); }), holds("q_proj.weight.shape[0]: got 10", "num_heads = 4"));
}

}  // namespace
}  // namespace qkv::test
