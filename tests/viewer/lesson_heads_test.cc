#include "viewer/lesson_heads.h"

#include <gmock/gmock.h>

#include <cmath>
#include <stdexcept>

#include "models/toy_bert.h"
#include "qkv/models/load_model.h"
#include "tests/viewer/record_support.h"

namespace qkv::viewer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::Rows;

Look look_of_rows(const std::vector<RecordToken>& tokens, const Rows& rows) {
  const auto len = static_cast<Index>(tokens.size());
  Tensor<float, 2> weights({len, len}, 0);
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t j = 0; j < rows[i].size(); ++j) weights(i, j) = rows[i][j];
  return look_of(weights, tokens);
}

Look look_at(double self, double num_keys) {
  Look look;
  look.shares.self = self;
  look.shares.other = 1 - self;
  look.num_keys = num_keys;
  return look;
}

// Two layers of two heads that do all that the tutorial says.
HeadsLesson lesson_of_theory() {
  HeadsLesson lesson;
  lesson.model = "toy";
  lesson.tokens = testing::tokens({"[CLS]", "a", "b", "[SEP]"});
  lesson.num_queries = 2;
  lesson.embed_dim = 8;
  const LayerLook layer{look_at(.8, 1.5), look_at(.7, 1.2), {look_at(.2, 2), look_at(.1, 3)}, look_at(.15, 3.5), 2};
  lesson.layers = {layer, layer};
  return lesson;
}

TEST(LookOf, SharesTheWeightOutAndAveragesOverTheTokensThatAreNotSpecial) {
  const auto tokens = testing::tokens({"[CLS]", "a", "b", "c", "[SEP]"});
  const auto shares =
      look_of_rows(
          tokens,
          {{1, 0, 0, 0, 0}, {.1F, .2F, .3F, .3F, .1F}, {0, .5F, .25F, .25F, 0}, {.4F, .1F, 0, 0, .5F}, {0, 0, 0, 0, 1}})
          .shares;
  EXPECT_NEAR(shares.self, (.2 + .25 + 0) / 3, 1e-7);
  EXPECT_NEAR(shares.previous, (0 + .5 + 0) / 3, 1e-7);
  EXPECT_NEAR(shares.next, (.3 + .25 + 0) / 3, 1e-7);
  EXPECT_NEAR(shares.cls, (.1 + 0 + .4) / 3, 1e-7);
  EXPECT_NEAR(shares.sep, (.1 + 0 + .5) / 3, 1e-7);
  EXPECT_NEAR(shares.other, (.3 + 0 + .1) / 3, 1e-7);
}

TEST(LookOf, CountsTheKeysThatTheWeightIsSpreadOver) {
  const auto tokens = testing::tokens({"a", "b", "c", "d"});
  const auto even = std::vector<float>(4, .25F);
  EXPECT_NEAR(look_of_rows(tokens, {even, even, even, even}).num_keys, 4, 1e-6);
  const std::vector<float> one = {0, 1, 0, 0};
  EXPECT_NEAR(look_of_rows(tokens, {one, one, one, one}).num_keys, 1, 1e-6);
}

TEST(LookOf, TakesEveryTokenWhereAllAreSpecial) {
  const auto shares = look_of_rows(testing::tokens({"[CLS]", "[SEP]"}), {{1, 0}, {.5F, .5F}}).shares;
  EXPECT_NEAR(shares.self, .75, 1e-7);
  EXPECT_NEAR(shares.sep + shares.cls, .25, 1e-7);
}

TEST(LookOf, SpecialTokensInTheTextAreNoNeighbours) {
  const auto shares = look_of_rows(testing::tokens({"[CLS]", "a", "[SEP]", "b"}),
                                   {{1, 0, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}, {0, 0, 1, 0}})
                          .shares;
  EXPECT_EQ(shares.sep, 1);
  EXPECT_EQ(shares.next + shares.previous, 0);
}

TEST(LookOf, RefusesOtherShapes) {
  const Tensor<float, 2> weights({2, 3}, 0);
  EXPECT_THROW(look_of(weights, testing::tokens({"a", "b"})), std::invalid_argument);
}

TEST(MainPlace, IsWhereHalfOfTheWeightGoes) {
  EXPECT_EQ(main_place({.self = .5, .other = .5}), Place::kSelf);
  EXPECT_EQ(main_place({.previous = .6, .other = .4}), Place::kPrevious);
  EXPECT_EQ(main_place({.next = .6, .other = .4}), Place::kNext);
  EXPECT_EQ(main_place({.cls = .6, .other = .4}), Place::kCls);
  EXPECT_EQ(main_place({.sep = .6, .other = .4}), Place::kSep);
  EXPECT_EQ(main_place({.self = .4, .other = .6}), std::nullopt);
}

TEST(NumStrongestKeys, CountsDifferentOnesForEachQuery) {
  const Record record = testing::record({"a", "b", "c"}, {{{{.8F, .1F, .1F}, {0, 0, 1}, {1, 0, 0}},
                                                           {{.6F, .2F, .2F}, {0, 1, 0}, {1, 0, 0}},
                                                           {{.5F, .3F, .2F}, {1, 0, 0}, {0, 0, 1}}}});
  EXPECT_NEAR(num_strongest_keys(record.attn_weights[0].view().select(0, 0), record.tokens), (1 + 3 + 2) / 3.0, 1e-12);
}

TEST(OneHeadWeights, AreSoftmaxOfTheDotProductsOverTheRootOfTheWidth) {
  const float values[] = {1, 2, 0, -1, .5F, 1, 3, 1};  // two vectors of width 4
  const CView<3> x(values, {1, 2, 4});
  const auto weights = one_head_weights(x, x);
  const double own = (1 + 4 + 0 + 1) / 2.0, other = (.5 + 2 + 0 - 1) / 2.0;
  EXPECT_NEAR(weights(0, 0, 0, 0), std::exp(own) / (std::exp(own) + std::exp(other)), 1e-6);
  EXPECT_NEAR(weights(0, 0, 0, 0) + weights(0, 0, 0, 1), 1, 1e-6);
}

class MeasureHeads : public ::testing::Test {
 protected:
  MeasureHeads() {
    test::ToyBert().write(folder_);
    model_.emplace(load_model(folder_.path()));
  }

  HeadsLesson measure(Executor* executor = nullptr) const {
    return measure_heads({"toy", model_->model, ids_, tokens_}, executor);
  }

  test::ModelFolder folder_;
  std::optional<LoadedModel> model_;
  std::vector<std::int32_t> ids_ = {2, 5, 6, 7, 3};
  std::vector<RecordToken> tokens_ = testing::tokens({"[CLS]", "the", "cat", "sat", "[SEP]"});
};

TEST_F(MeasureHeads, MeasuresEveryLayerAndHead) {
  const HeadsLesson lesson = measure();
  EXPECT_EQ(lesson.layers.size(), 2U);
  EXPECT_EQ(lesson.num_heads(), 3);
  EXPECT_EQ(lesson.num_queries, 3);
  EXPECT_EQ(lesson.embed_dim, 12);
  const Bert& bert = std::get<Bert>(model_->model);
  const auto output = forward(bert, TensorView<const std::int32_t, 2>(ids_.data(), {1, 5}),
                              {.hidden_states = true, .attn_weights = true});
  for (std::size_t layer = 0; layer < 2; ++layer) {
    double mean = 0;
    for (Index h = 0; h < 3; ++h) {
      double diagonal = 0;
      for (Index i = 1; i < 4; ++i) diagonal += output.attn_weights[layer](0, h, i, i) / 3;
      EXPECT_NEAR(lesson.layers[layer].heads[h].shares.self, diagonal, 1e-6);
      mean += diagonal / 3;
    }
    EXPECT_NEAR(lesson.layers[layer].together.shares.self, mean, 1e-6);
  }
}

// A single head of all heads' widths adds up the scores of the heads: sum_h q_h . k_h.
TEST_F(MeasureHeads, OneHeadIsTheLayersProjectionsInOnePiece) {
  const Bert& bert = std::get<Bert>(model_->model);
  const auto output = forward(bert, TensorView<const std::int32_t, 2>(ids_.data(), {1, 5}), {.hidden_states = true});
  const LayerLook look = measure().layers[1];
  const auto& x = output.hidden_states[1];
  const auto& layer = bert.blocks[1].attention;
  const auto q = forward(layer.q_proj, x), k = forward(layer.k_proj, x);
  const auto self_of = [](const auto& a, const auto& b) {
    double self = 0;
    for (Index i = 1; i < 4; ++i) {
      double own = 0, sum = 0;
      for (Index j = 0; j < 5; ++j) {
        double score = 0;
        for (Index d = 0; d < 12; ++d) score += static_cast<double>(a(0, i, d)) * b(0, j, d);
        sum += std::exp(score / std::sqrt(12.0));
        if (i == j) own = std::exp(score / std::sqrt(12.0));
      }
      self += own / sum / 3;
    }
    return self;
  };
  EXPECT_NEAR(look.one_head.shares.self, self_of(q, k), 1e-5);
  EXPECT_NEAR(look.plain.shares.self, self_of(x, x), 1e-5);
}

TEST_F(MeasureHeads, DoesNotDependOnThreads) {
  TbbExecutor threads(3);
  const auto one = measure(&calling_thread_executor()), three = measure(&threads);
  EXPECT_EQ(one.layers[1].one_head.num_keys, three.layers[1].one_head.num_keys);
}

TEST_F(MeasureHeads, RefusesTokensThatAreNotThoseOfTheIds) {
  ids_.pop_back();
  EXPECT_THROW(measure(), std::invalid_argument);
  ids_.clear();
  tokens_.clear();
  EXPECT_THROW(measure(), std::invalid_argument);
}

TEST(HeadsClaims, HoldWhereTheNumbersAgree) {
  const auto claims = claims_of(lesson_of_theory());
  ASSERT_EQ(claims.size(), 4U);
  for (const Claim& claim : claims) EXPECT_TRUE(claim.holds) << claim.claim << ": " << claim.evidence;
}

TEST(HeadsClaims, FailWhereMostLayersDisagree) {
  HeadsLesson lesson = lesson_of_theory();
  for (LayerLook& layer : lesson.layers) {
    layer.plain = layer.one_head = look_at(.1, 9);
    layer.heads = {look_at(.9, 1), look_at(.95, 1)};
    layer.num_strongest = 1;
  }
  for (const Claim& claim : claims_of(lesson)) EXPECT_FALSE(claim.holds) << claim.claim << ": " << claim.evidence;
}

TEST(HeadsClaims, NameTheHeadThatLooksAtItselfMost) {
  HeadsLesson lesson = lesson_of_theory();
  lesson.layers[1].heads[1] = look_at(.4, 2);
  EXPECT_THAT(claims_of(lesson)[2].evidence, HasSubstr("40% in layer 1 head 1"));
}

TEST(HeadsClaims, SayWhatTurnedTheLookAwayFromTheOwnWord) {
  HeadsLesson lesson = lesson_of_theory();
  EXPECT_THAT(claims_of(lesson)[2].evidence, HasSubstr("it is the number of heads"));
  for (LayerLook& layer : lesson.layers) layer.one_head = look_at(.1, 1.2);
  EXPECT_THAT(claims_of(lesson)[2].evidence, HasSubstr("it is the learned weights"));
  for (LayerLook& layer : lesson.layers) layer.plain = look_at(.1, 1.2);
  EXPECT_THAT(claims_of(lesson)[2].evidence, Not(HasSubstr("it is the")));
}

TEST(HeadsClaims, SayWhereTheHeadsLookInstead) {
  HeadsLesson lesson = lesson_of_theory();
  lesson.layers[0].heads = {{.shares = {.cls = .6, .other = .4}}, {.shares = {.next = .7, .other = .3}}};
  EXPECT_THAT(claims_of(lesson)[2].evidence,
              HasSubstr("1 head looks mostly at the next token, 1 at [CLS], 2 at no one place"));
  EXPECT_EQ(num_heads_at(lesson, Place::kNext), 1);
  EXPECT_EQ(num_heads_at(lesson.layers[0], std::nullopt), 0);
}

TEST(HeadsClaims, ASingleHeadSpreadsNothing) {
  HeadsLesson lesson = lesson_of_theory();
  for (LayerLook& layer : lesson.layers) {
    layer.heads.pop_back();
    layer.num_strongest = 1;
  }
  const auto claims = claims_of(lesson);
  EXPECT_FALSE(claims[2].holds);
  EXPECT_FALSE(claims[3].holds);
  EXPECT_THAT(claims[3].evidence, HasSubstr("the 1 head of a layer"));
}

}  // namespace
}  // namespace qkv::viewer
