#include "viewer/link.h"

#include <gmock/gmock.h>

#include <limits>

#include "tests/viewer/record_support.h"

namespace qkv::viewer {
namespace {

using ::testing::ElementsAre;
using testing::Rows;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Shown shown_as(const Record& record, SpecialTokens special) {
  return {visible_tokens(record, special), special};
}

// Whom the strongest link of the only head leads from and to.
std::pair<TokenRun, TokenRun> strongest(const Record& record, const LinkEnds& ends = {},
                                        SpecialTokens special = SpecialTokens::kShow) {
  const Link link = strongest_link(record, {{0, 0}}, ends, shown_as(record, special));
  return {link.from, link.to};
}

std::pair<TokenRun, TokenRun> tokens(Index from, Index to) {
  return {{from, from + 1}, {to, to + 1}};
}

TEST(VisibleTokens, LeaveSpecialOnesOutUnlessTheyAreShown) {
  const Record record = testing::record({"[CLS]", "a"}, {});
  EXPECT_THAT(visible_tokens(record, SpecialTokens::kShow), ElementsAre(true, true));
  EXPECT_THAT(visible_tokens(record, SpecialTokens::kHide), ElementsAre(false, true));
  EXPECT_THAT(visible_tokens(record, SpecialTokens::kRenormalise), ElementsAre(false, true));
}

TEST(IsContent, IsNeitherASpecialTokenNorPunctuation) {
  EXPECT_TRUE(is_content({.text = "cat"}));
  EXPECT_FALSE(is_content({.text = "."}));
  EXPECT_FALSE(is_content({.text = "CLS", .is_special = true}));
}

TEST(RowDivisors, AreTheVisibleSumsWhenRenormalised) {
  const Record record = testing::record({"[CLS]", "a", "b"}, {{{{.5F, .25F, .25F}, {1, 0, 0}, {.2F, .2F, .6F}}}});
  const auto weights = record.weights(0, 0);
  const auto divisors = row_divisors(weights, shown_as(record, SpecialTokens::kRenormalise));
  EXPECT_FLOAT_EQ(static_cast<float>(divisors[0]), .5F);
  EXPECT_EQ(divisors[1], 1) << "a row without a visible weight is divided by 1";
  EXPECT_FLOAT_EQ(static_cast<float>(divisors[2]), .8F);
  EXPECT_THAT(row_divisors(weights, shown_as(record, SpecialTokens::kHide)), ElementsAre(1, 1, 1));
}

TEST(LinkWeight, IsTheMeanOverRowsOfTheSumOverColumns) {
  const Record record = testing::record({"a", "b", "c"}, {{{{.5F, .25F, .25F}, {.125F, .375F, .5F}, {1, 0, 0}}}});
  const auto weights = record.weights(0, 0);
  EXPECT_EQ(link_weight(weights, {1, 1, 1}, {{0, 1}, {1, 2}}), .25);
  EXPECT_EQ(link_weight(weights, {1, 1, 1}, {{0, 2}, {1, 3}}), (.5 + .875) / 2);
  EXPECT_EQ(link_weight(weights, {.5, 1, 1}, {{0, 2}, {1, 3}}), (1 + .875) / 2) << "each row by its own divisor";
}

TEST(IsStronger, TakesNanForTheWeakest) {
  EXPECT_TRUE(is_stronger(2, 1));
  EXPECT_FALSE(is_stronger(1, 1));
  EXPECT_TRUE(is_stronger(-1, kNan));
  EXPECT_FALSE(is_stronger(kNan, -1));
  EXPECT_FALSE(is_stronger(kNan, kNan));
}

TEST(StrongestLink, IsBetweenWordsWithAnotherBetweenThem) {
  const Record record = testing::record({"a", "b", "c"}, {{{{0, .9F, .1F}, {.9F, 0, .1F}, {.2F, .8F, 0}}}});
  EXPECT_EQ(strongest(record), tokens(2, 0));
}

TEST(StrongestLink, IsBetweenNeighboursWhereThereAreOnlyThose) {
  const Record record = testing::record({"a", "b"}, {{{{.9F, .1F}, {.2F, .8F}}}});
  EXPECT_EQ(strongest(record), tokens(1, 0));
}

TEST(StrongestLink, IsOfAWordToItselfWhereItIsAlone) {
  EXPECT_EQ(strongest(testing::record({"a"}, {{{{1}}}})), tokens(0, 0));
}

TEST(StrongestLink, DoesNotCountPunctuationAndSpecialTokensAsWords) {
  const Record record = testing::record({"[CLS]", "a", ".", "b"},
                                        {{{{0, .5F, 0, .5F}, {.4F, 0, .5F, .1F}, {0, 1, 0, 0}, {.7F, .05F, .25F, 0}}}});
  EXPECT_EQ(strongest(record), tokens(1, 3)) << "the point between them is no word, so they are neighbours";
}

TEST(StrongestLink, IsBetweenPunctuationMarksWhereThereIsNothingElse) {
  const Record record = testing::record({"[CLS]", ".", "!"}, {{{{0, .5F, .5F}, {.1F, .1F, .8F}, {.5F, .4F, .1F}}}});
  EXPECT_EQ(strongest(record), tokens(1, 2));
  const Record special = testing::record({"[CLS]", "[SEP]"}, {{{{.5F, .5F}, {.6F, .4F}}}});
  EXPECT_EQ(strongest(special), tokens(1, 0)) << "or between special tokens";
}

TEST(StrongestLink, KeepsTheEndsThatAreGiven) {
  const Record record = testing::record({"a", "b", "c"}, {{{{0, .9F, .1F}, {.9F, 0, .1F}, {.2F, .8F, 0}}}});
  EXPECT_EQ(strongest(record, {.from = TokenRun{0, 1}}), tokens(0, 2)) << "b is a neighbour";
  EXPECT_EQ(strongest(record, {.to = TokenRun{1, 2}}), tokens(0, 1)) << "b has only neighbours";
  EXPECT_EQ(strongest(record, {.from = TokenRun{0, 1}, .to = TokenRun{0, 1}}), tokens(0, 0));
}

TEST(StrongestLink, TakesWordsWithAllTheirPieces) {
  const Record record = testing::record(
      {"a", "b", "c", "##d"}, {{{{0, .4F, .3F, .3F}, {.25F, .25F, .25F, .25F}, {.5F, 0, .5F, 0}, {0, 1, 0, 0}}}});
  EXPECT_EQ(strongest(record), (std::pair{TokenRun{0, 1}, TokenRun{2, 4}}));
}

TEST(StrongestLink, LooksThroughAllHeadsAndPassesNanBy) {
  const Rows flat = {{.4F, .3F, .3F}, {.4F, .3F, .3F}, {.3F, .3F, .4F}}, sharp = {{0, 0, 1}, {1, 0, 0}, {0, 1, 0}},
             broken = {{kNan, kNan, kNan}, {kNan, kNan, kNan}, {kNan, kNan, kNan}};
  const Record record = testing::record({"a", "b", "c"}, {{broken, flat}, {sharp, broken}});
  const Link link =
      strongest_link(record, {{0, 0}, {0, 1}, {1, 0}, {1, 1}}, {}, shown_as(record, SpecialTokens::kShow));
  EXPECT_EQ(link.from, (TokenRun{0, 1}));
  EXPECT_EQ(link.to, (TokenRun{2, 3}));
  const Link none = strongest_link(record, {{0, 0}}, {}, shown_as(record, SpecialTokens::kShow));
  EXPECT_EQ(none.from.size(), 1) << "a link all the same where nothing is a number";
}

TEST(StrongestLink, WeighsWhatIsVisible) {
  // Renormalised, row b gives all it has left to c; shown as it is, a gives c more.
  const Record record = testing::record({"[CLS]", "a", "b", "c"},
                                        {{{{1, 0, 0, 0}, {.5F, .25F, 0, .25F}, {.8F, 0, .1F, .1F}, {.8F, .2F, 0, 0}}}});
  EXPECT_EQ(strongest(record, {}, SpecialTokens::kHide), tokens(1, 3));
  EXPECT_EQ(strongest(record, {}, SpecialTokens::kRenormalise), tokens(3, 1));
}

}  // namespace
}  // namespace qkv::viewer
