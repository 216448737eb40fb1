#include "viewer/terminal.h"

#include <gmock/gmock.h>

#include <sstream>

#include "tests/viewer/record_support.h"
#include "viewer/display_text.h"

namespace qkv::viewer {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Rows;
using ::testing::SizeIs;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// A square picture of weights that are 1/n, but for one that is 0.5.
Picture picture_of(std::vector<RecordToken> tokens) {
  Picture picture;
  picture.model = "toy";
  picture.num_layers = picture.num_heads = 1;
  picture.num_tokens = static_cast<Index>(tokens.size());
  picture.weights =
      Tensor<float, 2>({picture.num_tokens, picture.num_tokens}, 1.0F / static_cast<float>(tokens.size()));
  picture.weights(0, picture.num_tokens - 1) = .5F;
  picture.hidden_weights = Tensor<float, 2>({picture.num_tokens, 0});
  picture.queries = tokens;
  picture.keys = std::move(tokens);
  picture.from = TokenRun{0, 1};
  return picture;
}

// https://github.com/ihabunek/toot/pull/576
Picture wide_labels() {
  return picture_of(testing::tokens({"a", "\u65e5\u672c", "\U0001f44d", "e\u0301", "[PAD]"}));
}

// The lines of the matrix itself: those that begin with a number and end with cells.
std::vector<std::string> rows_of_matrix(const std::string& view) {
  std::vector<std::string> rows;
  for (const std::string& line : lines_of(view))
    if (line.size() > 2 && line[0] == ' ' && line[1] >= '0' && line[1] <= '9' && line[2] == ' ') rows.push_back(line);
  return rows;
}

TEST(MatrixView, RowsHaveTheSameWidthWhateverTheLetters) {
  for (const Index width : {20, 80}) {
    const auto rows = rows_of_matrix(matrix_view(wide_labels(), {.width = width}));
    ASSERT_THAT(rows, SizeIs(5)) << width;
    for (const std::string& row : rows) EXPECT_EQ(display_width(row), 4 + 5 + 2 * 5) << row;
  }
}

TEST(MatrixView, CutsLabelsBetweenClusters) {
  const auto picture = picture_of(testing::tokens({"\u65e5\u672c\u65e5\u672c\u65e5\u672c", "b", "c", "d", "e"}));
  const auto rows = rows_of_matrix(matrix_view(picture, {.width = 20}));
  ASSERT_THAT(rows, SizeIs(5));
  // Six columns are left for the label: two characters of two, the mark, and a blank.
  EXPECT_THAT(rows[0], HasSubstr(" \u65e5\u672c\u2026  "));
  for (const std::string& row : rows) EXPECT_EQ(display_width(row), 20);
}

TEST(MatrixView, HasNoEscapesWithoutColors) {
  for (const Index width : {20, 80}) EXPECT_THAT(matrix_view(wide_labels(), {.width = width}), Not(HasSubstr("\033")));
  EXPECT_THAT(text_view(wide_labels(), {}), Not(HasSubstr("\033")));
}

TEST(MatrixView, DigitsAreTenthsAndAsciiIsARamp) {
  Picture picture = picture_of(testing::tokens({"a", "b"}));
  const float values[] = {0.04F, 0.26F, 0.96F, 1.0F};
  std::copy(std::begin(values), std::end(values), picture.weights.data());
  const auto digits = rows_of_matrix(matrix_view(picture, {}));
  EXPECT_TRUE(digits[0].ends_with(" \u00b7 3")) << digits[0];
  EXPECT_TRUE(digits[1].ends_with(" 9 9")) << digits[1];
  const auto ascii = rows_of_matrix(matrix_view(picture, {.unicode = false}));
  EXPECT_TRUE(ascii[0].ends_with("   -")) << ascii[0];
  EXPECT_TRUE(ascii[1].ends_with(" @ @")) << ascii[1];
}

// https://github.com/jessevig/bertviz/issues/67
TEST(MatrixView, RowsAreQueriesAndColumnsAreKeys) {
  Picture picture;
  picture.model = "toy";
  picture.queries = testing::tokens({"x", "y"});
  picture.keys = testing::tokens({"a", "b", "c"});
  picture.weights = Tensor<float, 2>({2, 3});
  const float values[] = {.1F, .2F, .7F, .3F, .3F, .4F};
  std::copy(std::begin(values), std::end(values), picture.weights.data());
  const std::string view = matrix_view(picture, {});
  const auto rows = rows_of_matrix(view);
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_THAT(rows[0], HasSubstr(" x "));
  EXPECT_TRUE(rows[0].ends_with(" 1 2 7"));
  EXPECT_TRUE(rows[1].ends_with(" 3 3 4"));
  EXPECT_THAT(lines_of(view), Contains(::testing::EndsWith(" a b c")));
}

TEST(MatrixView, NumbersColumnsWhoseTokensAreLong) {
  const std::string view = matrix_view(picture_of(testing::tokens({"because", "it"})), {});
  EXPECT_THAT(lines_of(view), Contains("columns: 0 because 1 it"));
}

TEST(MatrixView, PoolsToThePeakWhereTheWidthEnds) {
  std::vector<RecordToken> tokens;
  for (Index i = 0; i < 100; ++i) tokens.push_back({.text = "t", .word = i});
  Picture picture = picture_of(tokens);
  picture.weights = Tensor<float, 2>({100, 100}, 0.0F);
  picture.weights(99, 0) = .6F;  // one needle
  const std::string view = matrix_view(picture, {.width = 30});
  EXPECT_THAT(view, HasSubstr("1 cell = 4\u00d74"));
  EXPECT_THAT(lines_of(view), Contains(HasSubstr(" 6\u00b7\u00b7")));
  for (const std::string& line : lines_of(view)) EXPECT_LE(display_width(line), 30) << line;
}

TEST(TextView, AnswersFirst) {
  Picture picture = picture_of(testing::tokens({"it", "was", "tired"}));
  EXPECT_EQ(lines_of(text_view(picture, {}))[2], "\"it\" looks most at \"tired\": 0.50 in layer 0 head 0");
  picture.to = TokenRun{2, 3};
  EXPECT_EQ(lines_of(text_view(picture, {}))[2], "\"it\" looks most at \"tired\": 0.50 in layer 0 head 0");
  picture.to = TokenRun{1, 2};
  EXPECT_EQ(lines_of(text_view(picture, {}))[2],
            "\"it\" looks at \"was\" with 0.33 in layer 0 head 0, but most at \"tired\": 0.50");
}

TEST(TextView, OwnsUpToWhatIsHidden) {
  Picture picture = picture_of(testing::tokens({"it", "tired"}));
  picture.hidden_keys = testing::tokens({"[CLS]"});
  picture.hidden_weights = Tensor<float, 2>({2, 1}, .9F);
  picture.special = SpecialTokens::kHide;
  const std::string view = text_view(picture, {.width = 200});
  EXPECT_THAT(view, HasSubstr("looks most at \"[CLS]\": 0.90"));
  EXPECT_THAT(view, HasSubstr("of the other words, at \"tired\" 0.50"));
  EXPECT_THAT(view, HasSubstr("(hidden: [CLS] 90%)"));
}

TEST(TextView, PutsEachNumberUnderItsToken) {
  const auto lines = lines_of(text_view(wide_labels(), {.width = 200}));
  ASSERT_GE(lines.size(), 6U);
  EXPECT_THAT(lines[4], HasSubstr("[a]"));
  EXPECT_EQ(display_width(lines[4]), display_width(lines[5]));
  EXPECT_TRUE(lines[5].ends_with("50%"));
}

TEST(TextView, ListsTheStrongestOfManyTokens) {
  std::vector<RecordToken> tokens;
  for (Index i = 0; i < 400; ++i) tokens.push_back({.text = "t" + std::to_string(i), .word = i, .index = i + 1});
  const std::string view = text_view(picture_of(tokens), {});
  EXPECT_THAT(view, HasSubstr("the 12 strongest of 400:"));
  EXPECT_THAT(view, HasSubstr("50%  t399  (#400)"));
  EXPECT_LT(lines_of(view).size(), 30U);
}

TEST(TextView, TellsEqualWordsApart) {
  Picture picture = picture_of(testing::tokens({"it", "was", "it"}));
  picture.queries[2].index = picture.keys[2].index = 3;
  EXPECT_EQ(lines_of(text_view(picture, {}))[2], "\"it\" #0 looks most at \"it\" #3: 0.50 in layer 0 head 0");
}

TEST(TextView, TokensCannotControlTheTerminal) {
  const auto picture = picture_of(testing::tokens({"\033[31m", "\u202e", "a\nb"}));
  for (const std::string& view : {text_view(picture, {}), matrix_view(picture, {})}) {
    EXPECT_THAT(view, Not(HasSubstr("\033")));
    EXPECT_THAT(view, Not(HasSubstr("\u202e")));
    EXPECT_THAT(view, Not(HasSubstr("a\nb")));
  }
}

TEST(TextView, FitsInNarrowTerminals) {
  const auto picture = picture_of(testing::tokens({"antidisestablishmentarianism", "\u65e5\u672c", "it"}));
  for (const std::string& view : {text_view(picture, {.width = 20}), matrix_view(picture, {.width = 20})})
    for (const std::string& line : lines_of(view)) EXPECT_LE(display_width(line), 20) << line;
}

}  // namespace
}  // namespace qkv::viewer
