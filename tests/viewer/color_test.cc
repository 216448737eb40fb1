#include "viewer/color.h"

#include <gmock/gmock.h>

#include <limits>

namespace qkv::viewer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kSteps = 200;

class Ramp : public ::testing::TestWithParam<bool> {
 protected:
  // Weights that are equally far apart on the square-root scale.
  static double weight(int step) { return static_cast<double>(step) * step / (kSteps * kSteps); }
};

TEST_P(Ramp, LightnessNeverTurnsBack) {
  const bool dark = GetParam();
  for (int step = 1; step <= kSteps; ++step) {
    const double before = lightness(ramp_color(weight(step - 1), dark)),
                 after = lightness(ramp_color(weight(step), dark));
    EXPECT_TRUE(dark ? after >= before : after <= before) << step;
  }
  // Eight bits a channel allow a plateau between neighbours, but none this long.
  for (int step = 10; step <= kSteps; ++step)
    EXPECT_NE(ramp_color(weight(step - 10), dark), ramp_color(weight(step), dark)) << step;
}

TEST_P(Ramp, LightnessOf256ColorsNeverTurnsBack) {
  const bool dark = GetParam();
  for (int step = 1; step <= kSteps; ++step) {
    const int before = ramp_256(weight(step - 1), dark), after = ramp_256(weight(step), dark);
    EXPECT_GE(after, 16);
    if (before == after) continue;
    const double change = lightness(color_of_256(after)) - lightness(color_of_256(before));
    EXPECT_TRUE(dark ? change >= 0 : change <= 0) << step;
  }
}

TEST_P(Ramp, EndsAreFarApart) {
  const bool dark = GetParam();
  EXPECT_GE(contrast(ramp_color(0, dark), ramp_color(1, dark)), 3);
  EXPECT_GE(contrast(color_of_256(ramp_256(0, dark)), color_of_256(ramp_256(1, dark))), 3);
  EXPECT_NE(ramp_16(0, dark), ramp_16(1, dark));
}

TEST_P(Ramp, TakesWeightsThatAreNone) {
  const bool dark = GetParam();
  EXPECT_EQ(ramp_color(std::numeric_limits<double>::quiet_NaN(), dark), ramp_color(0, dark));
  EXPECT_EQ(ramp_color(-1, dark), ramp_color(0, dark));
  EXPECT_EQ(ramp_color(2, dark), ramp_color(1, dark));
}

INSTANTIATE_TEST_SUITE_P(Backgrounds, Ramp, ::testing::Bool());

// https://github.com/Mech-Interp/PySvelte/pull/10
TEST(Contrast, OfBlackOrWhiteTextIsEnoughOnEveryShade) {
  for (const bool dark : {true, false})
    for (int step = 0; step <= kSteps; ++step) {
      const Rgb shade = ramp_color(static_cast<double>(step) / kSteps, dark);
      EXPECT_GE(std::max(contrast(shade, {0, 0, 0}), contrast(shade, {255, 255, 255})), 4.5);
    }
}

TEST(Contrast, IsThatOfWcag) {
  EXPECT_NEAR(contrast({0, 0, 0}, {255, 255, 255}), 21, 1e-9);
  EXPECT_NEAR(contrast({119, 119, 119}, {255, 255, 255}), 4.48, 0.005);
  EXPECT_NEAR(lightness({119, 119, 119}), 50.03, 0.01);
}

TEST(ColorOf256, IsACubeAndGreys) {
  EXPECT_EQ(color_of_256(16), (Rgb{0, 0, 0}));
  EXPECT_EQ(color_of_256(231), (Rgb{255, 255, 255}));
  EXPECT_EQ(color_of_256(67), (Rgb{95, 135, 175}));
  EXPECT_EQ(color_of_256(232), (Rgb{8, 8, 8}));
  EXPECT_EQ(color_of_256(255), (Rgb{238, 238, 238}));
}

TEST(PaintLine, SetsEqualColorsOnceAndResetsAtTheEnd) {
  const Style style{.color = ColorDepth::k256};
  const std::string line = paint_line({{"a"}, {"b", 1.0}, {"c", 1.0}, {"d", 0.0}, {"e"}, {"f", 0.5}}, style);
  EXPECT_EQ(line.find('a'), 0U);
  EXPECT_THAT(line, HasSubstr("bc\033["));
  EXPECT_THAT(line, HasSubstr("d\033[0me"));
  EXPECT_TRUE(line.ends_with("f\033[0m"));
}

TEST(PaintLine, WithoutColorsIsText) {
  EXPECT_EQ(paint_line({{"a", 1.0}, {"b", 0.0, 1.0}}, {.color = ColorDepth::kNone}), "ab");
  EXPECT_EQ(paint_line({{"a"}}, {.color = ColorDepth::kTrue}), "a");
}

TEST(PaintLine, SetsTextAndBackgroundSoThatBothThemesWork) {
  for (const auto& [depth, text, behind] : {std::tuple{ColorDepth::k16, "\033[97;", ";40m"},
                                            {ColorDepth::k256, "\033[38;5;", ";48;5;"},
                                            {ColorDepth::kTrue, "\033[38;5;", ";48;2;"}}) {
    const std::string line = paint_line({{"a", 0.0}}, {.color = depth});
    EXPECT_THAT(line, HasSubstr(text));
    EXPECT_THAT(line, HasSubstr(behind));
  }
}

}  // namespace
}  // namespace qkv::viewer
