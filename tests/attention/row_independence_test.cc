// What a row may depend on: its query, the keys it sees and their places. Compared to the last bit.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "qkv/attention/attention.h"
#include "qkv/attention/resolve.h"
#include "support/random.h"
#include "support/targets.h"
#include "support/tolerance.h"

namespace qkv {
namespace {

class RowIndependence : public test::OnEveryTarget {
 protected:
  test::Random random_{5};
  Tensor<float, 4> q_ = random_.tensor<4>({3, 2, 203, 24}), k_ = random_.tensor<4>({3, 2, 203, 24}),
                   v_ = random_.tensor<4>({3, 2, 203, 40});
  AttentionOptions options_{.observe = {.lse = true, .entropy = true}, .reproducible = true};

  // A causal prefill against itself in two parts.
  void expect_same_however_cut() const;
};

// Rows `first` .. of batch entry b of `whole` against all rows of `part`.
template <class T>
void expect_same_rows(const BasicAttentionResult<T>& whole, Index b, Index first, const BasicAttentionResult<T>& part) {
  for (Index h = 0; h < part.out.shape(1); ++h)
    for (Index i = 0; i < part.out.shape(2); ++i) {
      const std::size_t bytes = static_cast<std::size_t>(part.out.shape(3)) * sizeof(T);
      ASSERT_EQ(0, std::memcmp(&whole.out(b, h, first + i, 0), &part.out(0, h, i, 0), bytes)) << h << ' ' << i;
      ASSERT_EQ(whole.lse(b, h, first + i), part.lse(0, h, i)) << h << ' ' << i;
      if (!part.entropy.empty()) {
        ASSERT_EQ(whole.entropy(b, h, first + i), part.entropy(0, h, i)) << h << ' ' << i;
      }
      for (Index j = 0; !part.attn_weights.empty() && j < part.attn_weights.shape(3); ++j)
        ASSERT_EQ(whole.attn_weights(b, h, first + i, j), part.attn_weights(0, h, i, j)) << h << ' ' << i << ' ' << j;
    }
}

TEST_P(RowIndependence, TheRestOfTheBatchDoesNotMatter) {
  const auto whole = attention(q_, k_, v_, options_);
  for (Index b = 0; b < 3; ++b) {
    const auto entry = [&](const Tensor<float, 4>& t) { return t.view().slice(0, b, b + 1); };
    expect_same_rows(whole, b, 0, attention(entry(q_), entry(k_), entry(v_), options_));
  }
}

// More short heads than tasks, with keys and values larger than a cache.
TEST_P(RowIndependence, ManyHeadsOfATaskAreAsIfAlone) {
  const auto q = random_.tensor<4>({40, 10, 40, 32}), k = random_.tensor<4>({40, 5, 50, 32}),
             v = random_.tensor<4>({40, 5, 50, 80});
  const auto whole = attention(q, k, v, options_);
  for (Index b = 0; b < 40; b += 13) {
    const auto entry = [&](const Tensor<float, 4>& t) { return t.view().slice(0, b, b + 1); };
    expect_same_rows(whole, b, 0, attention(entry(q), entry(k), entry(v), options_));
  }
}

// As a pool does whose threads have fixed numbers: the last of many workers does everything, the last task first.
class LastWorkerExecutor final : public Executor {
 public:
  Index num_workers() const override { return 9; }
  void run(Index num_tasks, FunctionRef<void(Index, Index)> task) override {
    for (Index index = num_tasks - 1; index >= 0; --index) task(index, 8);
  }
};

TEST_P(RowIndependence, WhichWorkerRunsWhatInWhichOrderDoesNotMatter) {
  const auto row = [](const Tensor<float, 4>& t) { return t.view().slice(0, 0, 1).slice(2, 0, 1); };
  const auto whole = attention(q_, k_, v_, options_), tiny = attention(row(q_), row(k_), row(v_), options_);
  LastWorkerExecutor executor;
  options_.executor = &executor;
  const auto again = attention(q_, k_, v_, options_);
  EXPECT_EQ(
      0, std::memcmp(whole.out.data(), again.out.data(), static_cast<std::size_t>(whole.out.size()) * sizeof(float)));
  expect_same_rows(tiny, 0, 0, attention(row(q_), row(k_), row(v_), options_));
}

TEST_P(RowIndependence, ARowOfNaNOrOfOverflowLeavesItsNeighboursAlone) {
  const auto clean = attention(q_, k_, v_, options_);
  q_(0, 0, 5, 3) = std::numeric_limits<float>::quiet_NaN();
  for (Index d = 0; d < 24; ++d) q_(0, 1, 7, d) = 3e38f;
  const auto spoilt = attention(q_, k_, v_, options_);
  for (Index h = 0; h < 2; ++h)
    for (Index i = 0; i < 203; ++i) {
      if ((h == 0 && i == 5) || (h == 1 && i == 7)) {
        ASSERT_TRUE(std::isnan(spoilt.out(0, h, i, 0)));
        continue;
      }
      ASSERT_EQ(0, std::memcmp(&clean.out(0, h, i, 0), &spoilt.out(0, h, i, 0), 40 * sizeof(float))) << h << ' ' << i;
    }
}

// Keys whose scores rise over the first tile's by 10 to 100 log2 units, each for some rows only.
void let_scores_rise(Tensor<float, 4>& k, float factor) {
  for (Index b = 0; b < 3; ++b)
    for (Index h = 0; h < 2; ++h)
      for (Index j = 3; j < 203; j += j < 96 ? 40 : 7)
        for (Index d = 0; d < 24; ++d) k(b, h, j, d) *= factor;
}

TEST_P(RowIndependence, WhatIsObservedDoesNotMatterHoweverScoresRise) {
  for (float factor : {1.0f, 8.0f, 2.5f}) {  // of what it was before
    let_scores_rise(k_, factor);
    for (const Mask& mask : {Mask{}, Mask{.causal = true}, Mask{.window = Window{.left = 50, .right = 3}}}) {
      options_.mask = mask;
      options_.observe = {.lse = true, .entropy = true};
      const auto q = q_.view().slice(0, 0, 1), k = k_.view().slice(0, 0, 1), v = v_.view().slice(0, 0, 1);
      const auto observed = attention(q, k, v, options_);
      const auto args = resolve<float>(q, k, v, options_);
      test::expect_accepted(observed, test::Oracle<float>(args), args, "factor " + std::to_string(factor));
      options_.observe = {};
      const auto plain = attention(q, k, v, options_);
      EXPECT_EQ(0, std::memcmp(observed.out.data(), plain.out.data(), sizeof(float) * plain.out.size())) << factor;
    }
  }
}

// Tiles that rise out of reach, tiles that do not, and some that do again: what is weighed at once, what in steps, does not show.
template <class T>
void expect_entropy_changes_nothing_where_scores_climb() {
  test::Random random(9);
  const auto q = random.tensor<4, T>({1, 2, 61, 24}), v = random.tensor<4, T>({1, 2, 900, 40});
  auto k = random.tensor<4, T>({1, 2, 900, 24});
  for (Index h = 0; h < 2; ++h)
    for (const auto& [begin, end, factor] : {std::tuple{96, 192, 8}, {480, 500, 20}, {700, 800, 60}})
      for (Index j = begin; j < end; ++j)
        for (Index d = 0; d < 24; ++d) k(0, h, j, d) *= static_cast<T>(factor);
  for (bool causal : {false, true}) {
    BasicAttentionOptions<T> options;
    options.mask.causal = causal;
    const auto plain = attention(q, k, v, options);
    const auto first = attention(q.view().slice(2, 0, 1), k, v, {.mask = {.causal = causal, .q_start = 839}});
    options.observe = {.entropy = true};
    const auto observed = attention(q, k, v, options);
    ASSERT_EQ(
        0, std::memcmp(plain.out.data(), observed.out.data(), sizeof(T) * static_cast<std::size_t>(plain.out.size())));
    for (Index h = 0; h < 2; ++h)
      ASSERT_EQ(0, std::memcmp(&plain.out(0, h, 0, 0), &first.out(0, h, 0, 0), sizeof(T) * 40)) << "alone";
  }
}

TEST_P(RowIndependence, HowATileIsWeighedDoesNotMatterWhereScoresClimb) {
  expect_entropy_changes_nothing_where_scores_climb<float>();
  expect_entropy_changes_nothing_where_scores_climb<double>();
}

// Where the entropy is asked for weights are formed another way.
template <class T>
void expect_entropy_changes_nothing(Index head_dim) {
  test::Random random(8);
  const auto q = random.tensor<4, T>({1, 4, 61, head_dim}), k = random.tensor<4, T>({1, 2, 203, head_dim}),
             v = random.tensor<4, T>({1, 2, 203, 40});
  auto bias = random.tensor<4, T>({1, 4, 61, 203});
  for (Index n = 0; n < bias.size(); ++n)
    if (random.chance(0.2)) bias.data()[n] = -std::numeric_limits<T>::infinity();
  for (bool causal : {false, true}) {
    BasicAttentionOptions<T> options;
    options.attn_bias = bias.view();
    options.mask.causal = causal;
    const auto plain = attention(q, k, v, options);
    options.observe = {.entropy = true};
    const auto observed = attention(q, k, v, options);
    EXPECT_EQ(0, std::memcmp(plain.out.data(), observed.out.data(), sizeof(T) * plain.out.size())) << head_dim;
  }
}

TEST_P(RowIndependence, WhatIsObservedDoesNotMatterBesideABias) {
  for (Index head_dim : {24, 160}) {
    expect_entropy_changes_nothing<float>(head_dim);
    expect_entropy_changes_nothing<double>(head_dim);
  }
}

void RowIndependence::expect_same_however_cut() const {
  const auto entry = [](const Tensor<float, 4>& t, Index begin, Index end) {
    return t.view().slice(0, 1, 2).slice(2, begin, end);
  };
  const auto whole = attention(entry(q_, 0, 203), entry(k_, 0, 203), entry(v_, 0, 203), options_);
  for (Index cut : {1, 13, 96, 150}) {
    const auto first = attention(entry(q_, 0, cut), entry(k_, 0, cut), entry(v_, 0, cut), options_);
    const auto second = attention(entry(q_, cut, 203), entry(k_, 0, 203), entry(v_, 0, 203), options_);
    expect_same_rows(whole, 0, 0, first);
    expect_same_rows(whole, 0, cut, second);
  }
}

TEST_P(RowIndependence, HowAPrefillIsCutDoesNotMatterHoweverScoresRise) {
  options_.mask.causal = true;
  options_.observe = {.lse = true};
  let_scores_rise(k_, 8);
  expect_same_however_cut();
  let_scores_rise(k_, 8);
  expect_same_however_cut();
}

TEST_P(RowIndependence, HowAPrefillIsCutDoesNotMatter) {
  options_.mask.causal = true;
  expect_same_however_cut();
}

TEST_P(RowIndependence, ASequenceOfARaggedBatchIsAsIfAlone) {
  const std::vector<Index> of_q{0, 31, 31, 130, 203}, of_k{0, 100, 103, 103, 203};
  const auto bounds = [](const std::vector<Index>& b) { return TensorView<const Index, 1>(b.data(), {std::ssize(b)}); };
  options_.mask = {.causal = true, .cu_seqlens_q = bounds(of_q), .cu_seqlens_k = bounds(of_k)};
  const Tensor<float, 1> slopes({2}, 0.1f);
  options_.alibi_slopes = slopes.view();
  const auto entry = [](const Tensor<float, 4>& t, Index begin, Index end) {
    return t.view().slice(0, 0, 1).slice(2, begin, end);
  };
  const auto whole = attention(entry(q_, 0, 203), entry(k_, 0, 203), entry(v_, 0, 203), options_);
  options_.mask = {.causal = true};
  for (std::size_t s = 0; s + 1 < of_q.size(); ++s)
    expect_same_rows(whole, 0, of_q[s],
                     attention(entry(q_, of_q[s], of_q[s + 1]), entry(k_, of_k[s], of_k[s + 1]),
                               entry(v_, of_k[s], of_k[s + 1]), options_));
}

TEST_P(RowIndependence, DropoutOfABatchInPartsIsThatOfTheWhole) {
  options_.dropout = Dropout{.p = 0.5, .seed = 7};
  const auto whole = attention(q_, k_, v_, options_);
  for (Index b = 0; b < 3; ++b) {
    options_.dropout->batch_start = b;
    const auto entry = [&](const Tensor<float, 4>& t) { return t.view().slice(0, b, b + 1); };
    expect_same_rows(whole, b, 0, attention(entry(q_), entry(k_), entry(v_), options_));
  }
}

// Row 0 sees the same keys in both calls, and the other rows of its panel every key in one and none in the other, so
// that the panel looks at all of each tile, or at as little as row 0 needs.
template <class T>
class FirstRow {
 public:
  FirstRow() {
    for (Index j : {37, 40, 70, 77, 130, 150, 202}) seen_[static_cast<std::size_t>(j)] = true;
    // In the later tiles the scores of row 0 rise a little, and those of the others so much that they are rescaled.
    for (Index h = 0; h < 2; ++h)
      for (Index j = 96; j < 203; ++j)
        for (Index d = 0; d < 24; ++d) k_(0, h, j, d) *= seen_[static_cast<std::size_t>(j)] ? 2 : 10;
  }

  void expect_same_by_keep() const {
    Tensor<bool, 4> all({1, 1, 203, 203}, true), none({1, 1, 203, 203}, false);
    for (Index j = 0; j < 203; ++j) all(0, 0, 0, j) = none(0, 0, 0, j) = seen_[static_cast<std::size_t>(j)];
    expect_same({.keep = all.view()}, {.keep = none.view()});
  }

  void expect_same_by_documents() const {
    std::vector<Index> of_k(203, 2), others_see(203, 2), others_blind(203, 3);
    for (std::size_t j = 0; j < 203; ++j)
      if (seen_[j]) of_k[j] = 1;
    others_see[0] = others_blind[0] = 1;
    const auto ids = [](const std::vector<Index>& row) { return TensorView<const Index, 2>(row.data(), {1, 203}); };
    expect_same({.documents = Documents{.k = ids(of_k), .q = ids(others_see)}},
                {.documents = Documents{.k = ids(of_k), .q = ids(others_blind)}});
  }

 private:
  BasicAttentionResult<T> run(const Mask& mask) const {
    return attention(
        q_, k_, v_,
        BasicAttentionOptions<T>{.mask = mask, .observe = {.lse = true, .entropy = true}, .reproducible = true});
  }

  void expect_same(const Mask& others_see, const Mask& others_blind) const {
    const auto crowded = run(others_see), alone = run(others_blind);
    for (Index h = 0; h < 2; ++h) {
      EXPECT_EQ(0, std::memcmp(&crowded.out(0, h, 0, 0), &alone.out(0, h, 0, 0), 40 * sizeof(T))) << h;
      EXPECT_EQ(crowded.lse(0, h, 0), alone.lse(0, h, 0)) << h;
      EXPECT_EQ(crowded.entropy(0, h, 0), alone.entropy(0, h, 0)) << h;
      // That the calls differ where they should:
      EXPECT_TRUE(std::isfinite(crowded.lse(0, h, 1))) << h;
      EXPECT_TRUE(std::isinf(alone.lse(0, h, 1))) << h;
    }
  }

  test::Random random_{6};
  Tensor<T, 4> q_ = random_.tensor<4, T>({1, 2, 203, 24}), k_ = random_.tensor<4, T>({1, 2, 203, 24}),
               v_ = random_.tensor<4, T>({1, 2, 203, 40});
  std::vector<bool> seen_ = std::vector<bool>(203);
};

TEST_P(RowIndependence, WhatTheOtherRowsSeeByKeepDoesNotMatter) {
  FirstRow<float>().expect_same_by_keep();
  FirstRow<double>().expect_same_by_keep();
}

TEST_P(RowIndependence, WhatTheOtherRowsSeeByDocumentsDoesNotMatter) {
  FirstRow<float>().expect_same_by_documents();
  FirstRow<double>().expect_same_by_documents();
}

// A structural mask, and the same said key by key, over more keys than a panel packs at once. A value is NaN: some panels are folded twice.
template <class T>
class MaskSaidTwice {
 public:
  static constexpr Index kQueries = 203, kKeys = 1001, kStart = kKeys - kQueries;

  MaskSaidTwice() {
    for (Index h = 0; h < 2; ++h) v_(0, h, 950, 3) = std::numeric_limits<T>::quiet_NaN();
  }

  // Bits by query and key, by key and query, and for all queries alike if they are.
  template <class Sees>
  void expect_same(const Mask& mask, const Sees& sees, bool queries_are_alike = false) {
    Tensor<bool, 4> keep({1, 1, kQueries, kKeys}), transposed({1, 1, kKeys, kQueries}), row({1, 1, 1, kKeys});
    for (Index j = 0; j < kKeys; ++j) {
      for (Index i = 0; i < kQueries; ++i) keep(0, 0, i, j) = transposed(0, 0, j, i) = sees(i, j);
      row(0, 0, 0, j) = sees(0, j);
    }
    for (const Observe& observe : {Observe{.lse = true}, {.lse = true, .entropy = true, .attn_weights = true}}) {
      const auto run = [&](const Mask& m) {
        return attention(q_, k_, v_, BasicAttentionOptions<T>{.mask = m, .observe = observe, .reproducible = true});
      };
      const auto by_rule = run(mask);
      expect_same_rows(by_rule, 0, 0, run({.keep = keep.view()}));
      expect_same_rows(by_rule, 0, 0, run({.keep = transposed.view().swap_axes(2, 3)}));
      if (queries_are_alike) expect_same_rows(by_rule, 0, 0, run({.keep = row.view()}));
    }
  }

 private:
  test::Random random_{8};
  Tensor<T, 4> q_ = random_.tensor<4, T>({1, 2, kQueries, 24}), k_ = random_.tensor<4, T>({1, 2, kKeys, 24}),
               v_ = random_.tensor<4, T>({1, 2, kKeys, 40});
};

template <class T>
void expect_same_masks_by_bits() {
  MaskSaidTwice<T> said_twice;
  constexpr Index kStart = said_twice.kStart;
  said_twice.expect_same({.causal = true}, [](Index i, Index j) { return j <= kStart + i; });
  said_twice.expect_same({.window = Window{500, 9}},
                         [](Index i, Index j) { return j >= kStart + i - 500 && j <= kStart + i + 9; });
  const Tensor<Index, 1> lens({1}, 777);
  said_twice.expect_same(
      {.valid_lens = lens.view()}, [](Index, Index j) { return j < 777; }, true);
  // Documents of 40 queries and 150 keys: most panels have queries of two.
  std::vector<Index> of_q, of_k;
  for (Index i = 0; i < said_twice.kQueries; ++i) of_q.push_back(i / 40);
  for (Index j = 0; j < said_twice.kKeys; ++j) of_k.push_back(j / 150);
  const auto ids = [](const std::vector<Index>& row) {
    return TensorView<const Index, 2>(row.data(), {1, std::ssize(row)});
  };
  said_twice.expect_same({.documents = Documents{.k = ids(of_k), .q = ids(of_q)}},
                         [](Index i, Index j) { return i / 40 == j / 150; });
}

TEST_P(RowIndependence, AMaskMaySayByBitsWhatARuleSays) {
  expect_same_masks_by_bits<float>();
  expect_same_masks_by_bits<double>();
}

INSTANTIATE_TEST_SUITE_P(Targets, RowIndependence, testing::ValuesIn(kernels::supported_targets()),
                         test::OnEveryTarget::name);

}  // namespace
}  // namespace qkv
