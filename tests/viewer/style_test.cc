#include "viewer/style.h"

#include <gmock/gmock.h>

#include <map>
#include <string>

namespace qkv::viewer {
namespace {

using Variables = std::map<std::string, std::string>;

ColorDepth choose(ColorChoice flag, const Variables& variables, bool is_terminal) {
  const auto environment = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  return choose_color(flag, environment, is_terminal);
}

Index width(const Variables& variables, std::optional<Index> columns) {
  return choose_width(
      [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      columns);
}

bool is_dark(const char* value) {
  return is_dark_background([&](const char*) { return value; });
}

// Each step decides over all that follow: the order that CMake documents for CLICOLOR_FORCE.
// https://cmake.org/cmake/help/latest/envvar/CLICOLOR_FORCE.html
TEST(ChooseColor, EachStepOfTheLadderDecidesOverThoseBelow) {
  const Variables none = {{"NO_COLOR", "1"}, {"CLICOLOR_FORCE", "1"}, {"TERM", "xterm"}};
  EXPECT_EQ(choose(ColorChoice::kAlways, none, false), ColorDepth::k16);
  EXPECT_EQ(choose(ColorChoice::kAuto, none, true), ColorDepth::kNone);
  const Variables forced = {{"NO_COLOR", ""}, {"CLICOLOR_FORCE", "1"}, {"CLICOLOR", "0"}, {"TERM", "dumb"}};
  EXPECT_EQ(choose(ColorChoice::kAuto, forced, false), ColorDepth::k16);
  EXPECT_EQ(choose(ColorChoice::kNever, forced, true), ColorDepth::kNone);
  EXPECT_EQ(choose(ColorChoice::kAuto, {{"FORCE_COLOR", "1"}, {"TERM", "x"}}, false), ColorDepth::k16);
  EXPECT_EQ(choose(ColorChoice::kAuto, {{"FORCE_COLOR", "0"}, {"TERM", "x"}}, false), ColorDepth::kNone);
  EXPECT_EQ(choose(ColorChoice::kAuto, {{"CLICOLOR", "0"}, {"TERM", "xterm"}}, true), ColorDepth::kNone);
  EXPECT_EQ(choose(ColorChoice::kAuto, {{"TERM", "dumb"}}, true), ColorDepth::kNone);
  EXPECT_EQ(choose(ColorChoice::kAuto, {}, true), ColorDepth::kNone);
  EXPECT_EQ(choose(ColorChoice::kAuto, {{"TERM", "xterm"}}, false), ColorDepth::kNone);
  EXPECT_EQ(choose(ColorChoice::kAuto, {{"TERM", "xterm"}}, true), ColorDepth::k16);
}

TEST(ChooseColor, DepthFollowsColortermThenTerm) {
  EXPECT_EQ(choose(ColorChoice::kAuto, {{"TERM", "xterm-256color"}}, true), ColorDepth::k256);
  for (const char* value : {"truecolor", "24bit"})
    EXPECT_EQ(choose(ColorChoice::kAuto, {{"TERM", "xterm"}, {"COLORTERM", value}}, true), ColorDepth::kTrue);
  EXPECT_EQ(choose(ColorChoice::k256, {{"COLORTERM", "truecolor"}}, false), ColorDepth::k256);
}

TEST(ChooseWidth, IsThatOfColumnsThenOfTheTerminalThenEighty) {
  EXPECT_EQ(width({{"COLUMNS", "100"}}, 120), 100);
  EXPECT_EQ(width({}, 120), 120);
  EXPECT_EQ(width({}, std::nullopt), 80);
  for (const char* nonsense : {"", "wide", "0", "-5", "80x"}) EXPECT_EQ(width({{"COLUMNS", nonsense}}, 120), 120);
  EXPECT_EQ(width({{"COLUMNS", "3"}}, std::nullopt), kLeastWidth);
}

TEST(IsDarkBackground, ReadsTheLastFieldOfColorfgbg) {
  EXPECT_TRUE(is_dark("15;0"));
  EXPECT_TRUE(is_dark("15;default;8"));
  EXPECT_FALSE(is_dark("0;15"));
  EXPECT_FALSE(is_dark("0;7"));
  EXPECT_TRUE(is_dark(nullptr));
  EXPECT_TRUE(is_dark("0;default"));
}

}  // namespace
}  // namespace qkv::viewer
