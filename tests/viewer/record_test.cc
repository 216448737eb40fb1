#include "viewer/record.h"

#include <gmock/gmock.h>

#include <stdexcept>

#include "tests/viewer/record_support.h"

namespace qkv::viewer {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using testing::Rows;

// https://github.com/jalammar/ecco/issues/51
Record playing_now() {
  return testing::record({"play", "##ing", "now"}, {{Rows{{.5F, .3F, .2F}, {.2F, .5F, .3F}, {.1F, .3F, .6F}}}});
}

TEST(MergeWords, ColumnsAddAndRowsAverage) {
  const Record merged = merge_words(playing_now());
  EXPECT_THAT(testing::texts_of(merged.tokens), ElementsAre("playing", "now"));
  const auto near = [](float value) { return FloatNear(value, 1e-6F); };
  EXPECT_THAT(testing::rows_of(merged.weights(0, 0)),
              ElementsAre(ElementsAre(near(.75F), near(.25F)), ElementsAre(near(.4F), near(.6F))));
}

TEST(MergeWords, RowsStillSumToOne) {
  const Record merged = merge_words(playing_now());
  for (const auto& row : testing::rows_of(merged.weights(0, 0))) EXPECT_NEAR(row[0] + row[1], 1, 1e-6);
}

TEST(MergeWords, LeavesWholeWordsAlone) {
  const Record record = testing::record({"[CLS]", "now"}, {{Rows{{.9F, .1F}, {.4F, .6F}}}});
  const Record merged = merge_words(record);
  EXPECT_THAT(testing::texts_of(merged.tokens), ElementsAre("[CLS]", "now"));
  EXPECT_TRUE(merged.tokens[0].is_special);
  EXPECT_EQ(testing::rows_of(merged.weights(0, 0)), testing::rows_of(record.weights(0, 0)));
}

TEST(WordRuns, FollowTheWordsAndNotTheLetters) {
  // Two words although the second token looks like a piece.
  std::vector<RecordToken> tokens = {{.text = "a", .word = 0}, {.text = "##b", .word = 1}, {.text = "c", .word = 1}};
  EXPECT_THAT(word_runs(tokens), ElementsAre(TokenRun{0, 1}, TokenRun{1, 3}));
  EXPECT_TRUE(word_runs({}).empty());
}

TEST(WordRuns, RefuseWordsThatComeBack) {
  EXPECT_THROW(word_runs({{.text = "a", .word = 1}, {.text = "b", .word = 0}}), std::invalid_argument);
}

TEST(WordsOf, TakesEveryWordThatTheRunTouches) {
  const Record record = testing::record({"un", "##do", "re", "##do", "it"}, {});
  EXPECT_EQ(words_of(record, {1, 2}), (TokenRun{0, 1}));
  EXPECT_EQ(words_of(record, {1, 3}), (TokenRun{0, 2}));
  EXPECT_EQ(words_of(record, {4, 5}), (TokenRun{2, 3}));
}

TEST(TextOf, JoinsPiecesAndKeepsWordsApart) {
  EXPECT_EQ(text_of(testing::tokens({"un", "##do", "it"}), {0, 3}), "undo it");
  EXPECT_EQ(text_of(testing::tokens({"un", "##do", "it"}), {1, 2}), "##do");
}

}  // namespace
}  // namespace qkv::viewer
