#include "viewer/table.h"

#include <gmock/gmock.h>

#include "viewer/display_text.h"

namespace qkv::viewer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Column column(const std::string& group, const std::string& title, std::initializer_list<const char*> texts) {
  Column result{.group = group, .title = title, .cells = {}};
  for (const char* text : texts) result.cells.push_back({.text = text});
  return result;
}

TEST(Table, SetsEverythingToTheRight) {
  EXPECT_EQ(table(column("", "x", {"1", "200"}), {column("", "long", {"3", "4"}), column("", "y", {"5", "66"})}, {}),
            "  x  long   y\n"
            "  1     3   5\n"
            "200     4  66\n");
}

TEST(Table, WritesAGroupOnceAboveItsColumns) {
  EXPECT_EQ(table(column("", "x", {"1"}),
                  {column("abc", "a", {"2"}), column("abc", "b", {"3"}), column("c", "c", {"4"})}, {}),
            "    abc  c\n"
            "x  a  b  c\n"
            "1  2  3  4\n");
}

TEST(Table, GoesOnBelowWhereTheWidthEnds) {
  EXPECT_EQ(table(column("", "x", {"1"}),
                  {column("wide", "aaaaaaaa", {"2"}), column("wide", "bbbbbbbb", {"3"}), column("", "c", {"4"})},
                  {.width = 20}),
            "     wide\n"
            "x  aaaaaaaa\n"
            "1         2\n"
            "\n"
            "     wide\n"
            "x  bbbbbbbb  c\n"
            "1         3  4\n");
}

TEST(Table, BreaksAGroupThatIsWiderThanItsColumns) {
  EXPECT_EQ(table(column("", "x", {"1"}), {column("a group", "a", {"2"}), column("longer", "b", {"3"})}, {}),
            "     a\n"
            "   group  longer\n"
            "x      a       b\n"
            "1      2       3\n");
}

TEST(Table, ShadesOnlyWhatHasAWeightAndOnlyWithColors) {
  Column shaded = column("", "a", {"50%", "5%"});
  shaded.cells[0].shade = shaded.cells[1].shade = .5;
  const Column first = column("", "x", {"1", "2"});
  EXPECT_THAT(table(first, {shaded}, {}), Not(HasSubstr("\033")));
  const std::string colored = table(first, {shaded}, {.color = ColorDepth::kTrue});
  EXPECT_THAT(colored, HasSubstr("m50%\033[0m\n"));
  EXPECT_THAT(colored, HasSubstr("\n1  \033"));
  EXPECT_THAT(colored, HasSubstr("m 5%\033[0m\n"));  // as wide as its column
}

}  // namespace
}  // namespace qkv::viewer
