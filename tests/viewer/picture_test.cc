#include "viewer/picture.h"

#include <gmock/gmock.h>

#include <limits>
#include <stdexcept>

#include "tests/viewer/record_support.h"

namespace qkv::viewer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Rows;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Two layers of one head each over [CLS] cat sat mat .
Record cat_sat() {
  const Rows near = {
      {1, 0, 0, 0, 0}, {.5F, 0, .5F, 0, 0}, {0, .9F, .1F, 0, 0}, {0, .3F, .3F, .2F, .2F}, {1, 0, 0, 0, 0}};
  const Rows far = {
      {1, 0, 0, 0, 0}, {.25F, .25F, 0, .5F, 0}, {0, 0, 1, 0, 0}, {.1F, .4F, .1F, 0, .4F}, {0, 0, 0, 0, 1}};
  return testing::record({"[CLS]", "cat", "sat", "mat", "."}, {{near}, {far}});
}

TEST(MakePicture, RanksEveryHeadByTheLink) {
  const Picture picture = make_picture(cat_sat(), {.from = TokenRun{3, 4}, .to = TokenRun{1, 2}});
  ASSERT_EQ(picture.ranking.size(), 2U);
  EXPECT_EQ(picture.ranking[0].layer, 1);
  EXPECT_FLOAT_EQ(picture.ranking[0].weight, .4F);
  EXPECT_EQ(picture.ranking[1].layer, 0);
  EXPECT_FLOAT_EQ(picture.ranking[1].weight, .3F);
  EXPECT_EQ(picture.layer, 1);
  EXPECT_EQ(picture.reason, "");
}

TEST(MakePicture, SaysWhatElseARankedHeadLooksAt) {
  const Picture picture = make_picture(cat_sat(), {.from = TokenRun{1, 2}, .to = TokenRun{3, 4}});
  // The row's own word, special tokens and punctuation are not among them.
  ASSERT_EQ(picture.ranking[1].next.size(), 1U);
  EXPECT_EQ(picture.ranking[1].next[0].token, 2);
  EXPECT_FLOAT_EQ(picture.ranking[1].next[0].weight, .5F);
}

TEST(MakePicture, PicksTheStrongestLinkBetweenWordsThatAreNotNeighbours) {
  // sat -> cat is stronger (0.9), but they are neighbours; mat -> . is as strong as mat -> cat, but no word.
  const Picture picture = make_picture(cat_sat(), {});
  EXPECT_EQ(picture.layer, 1);
  EXPECT_EQ(picture.from, (TokenRun{1, 2}));
  EXPECT_EQ(picture.to, (TokenRun{3, 4}));
  EXPECT_THAT(picture.reason, HasSubstr("not neighbours"));
}

TEST(MakePicture, PicksTheOtherEndOfALinkThatIsHalfGiven) {
  const Picture from = make_picture(cat_sat(), {.from = TokenRun{3, 4}});
  EXPECT_EQ(from.to, (TokenRun{1, 2}));
  EXPECT_THAT(from.reason, HasSubstr("from \"mat\""));
  const Picture to = make_picture(cat_sat(), {.to = TokenRun{3, 4}});
  EXPECT_EQ(to.from, (TokenRun{1, 2}));
  EXPECT_THAT(to.reason, HasSubstr("to \"mat\""));
}

TEST(MakePicture, PicksTheRowWithinTheHeadAskedFor) {
  const Picture picture = make_picture(cat_sat(), {.layer = 0, .head = 0});
  EXPECT_EQ(picture.from, (TokenRun{3, 4}));
  EXPECT_EQ(picture.to, (TokenRun{1, 2}));
  EXPECT_TRUE(picture.ranking.empty());
}

TEST(MakePicture, NeedsNoOtherEndWhenHeadAndRowAreGiven) {
  const Picture picture = make_picture(cat_sat(), {.layer = 0, .head = 0, .from = TokenRun{1, 2}});
  EXPECT_FALSE(picture.to);
  EXPECT_EQ(picture.reason, "");
}

TEST(MakePicture, TakesNeighboursWhereThereIsNothingElse) {
  const Record two = testing::record({"cat", "sat"}, {{Rows{{.1F, .9F}, {.5F, .5F}}}});
  EXPECT_EQ(make_picture(two, {}).to, (TokenRun{1, 2}));
  const Record one = testing::record({"[CLS]", "cat"}, {{Rows{{1, 0}, {.5F, .5F}}}});
  EXPECT_EQ(make_picture(one, {}).from, (TokenRun{1, 2}));
  const Record none = testing::record({"[CLS]", "[SEP]"}, {{Rows{{1, 0}, {.5F, .5F}}}});
  EXPECT_TRUE(make_picture(none, {}).from);
}

TEST(MakePicture, HidesWithoutTouchingTheOtherWeights) {
  const Picture picture =
      make_picture(cat_sat(), {.layer = 1, .head = 0, .from = TokenRun{1, 2}, .special = SpecialTokens::kHide});
  EXPECT_THAT(testing::texts_of(picture.keys), ElementsAre("cat", "sat", "mat", "."));
  EXPECT_THAT(testing::rows_of(picture.weights)[0], ElementsAre(.25F, 0, .5F, 0));
  EXPECT_THAT(testing::texts_of(picture.hidden_keys), ElementsAre("[CLS]"));
  EXPECT_THAT(testing::rows_of(picture.hidden_weights)[0], ElementsAre(.25F));
  EXPECT_EQ(picture.from, (TokenRun{0, 1}));
  EXPECT_EQ(picture.num_tokens, 5);
}

TEST(MakePicture, RenormalisesRowsAndRanking) {
  const Picture picture =
      make_picture(cat_sat(), {.from = TokenRun{1, 2}, .to = TokenRun{3, 4}, .special = SpecialTokens::kRenormalise});
  EXPECT_FLOAT_EQ(picture.ranking[0].weight, .5F / .75F);
  EXPECT_FLOAT_EQ(picture.weights(0, 2), .5F / .75F);
  // What is hidden is told on the old scale; a row that gave everything to it stays zero instead of becoming NaN.
  EXPECT_FLOAT_EQ(picture.hidden_weights(0, 0), .25F);
  const Picture near =
      make_picture(cat_sat(), {.layer = 0, .head = 0, .from = TokenRun{1, 2}, .special = SpecialTokens::kRenormalise});
  EXPECT_THAT(testing::rows_of(near.weights)[3], ElementsAre(0, 0, 0, 0));
}

TEST(MakePicture, CountsARunAsOneWord) {
  const Record record =
      testing::record({"play", "##ing", "now"}, {{Rows{{.5F, .3F, .2F}, {.2F, .5F, .3F}, {.1F, .3F, .6F}}}});
  const Picture pieces = make_picture(record, {.from = TokenRun{2, 3}, .to = TokenRun{0, 2}});
  EXPECT_FLOAT_EQ(pieces.ranking[0].weight, .4F);
  const Picture mean = make_picture(record, {.from = TokenRun{0, 2}, .to = TokenRun{2, 3}});
  EXPECT_FLOAT_EQ(mean.ranking[0].weight, .25F);
  const Picture words = make_picture(record, {.from = TokenRun{0, 2}, .to = TokenRun{2, 3}, .words = true});
  EXPECT_FLOAT_EQ(words.ranking[0].weight, .25F);
  EXPECT_EQ(words.from, (TokenRun{0, 1}));
  EXPECT_EQ(words.num_tokens, 3);
}

TEST(MakePicture, RanksNanLast) {
  const Record record = testing::record({"a", "b"}, {{Rows{{0, kNan}, {0, 0}}, Rows{{1, 0}, {0, 0}}}});
  const Picture picture = make_picture(record, {.from = TokenRun{0, 1}, .to = TokenRun{1, 2}});
  EXPECT_EQ(picture.ranking[0].head, 1);
}

TEST(MakePicture, RefusesWhatIsNotThere) {
  EXPECT_THROW(make_picture(cat_sat(), {.layer = 2}), std::out_of_range);
  EXPECT_THROW(make_picture(cat_sat(), {.head = 1}), std::out_of_range);
  EXPECT_THROW(make_picture(cat_sat(), {.head = -1}), std::out_of_range);
  EXPECT_THROW(make_picture(cat_sat(), {.from = TokenRun{4, 6}}), std::out_of_range);
  EXPECT_THROW(make_picture(cat_sat(), {.to = TokenRun{2, 2}}), std::invalid_argument);
  EXPECT_THROW(make_picture(testing::record({}, {}), {}), std::invalid_argument);
}

TEST(MakePicture, RefusesEndsThatAreHidden) {
  EXPECT_THROW(make_picture(cat_sat(), {.from = TokenRun{0, 1}, .special = SpecialTokens::kHide}),
               std::invalid_argument);
  const Record none = testing::record({"[CLS]"}, {{Rows{{1}}}});
  EXPECT_THROW(make_picture(none, {.special = SpecialTokens::kHide}), std::invalid_argument);
}

}  // namespace
}  // namespace qkv::viewer
