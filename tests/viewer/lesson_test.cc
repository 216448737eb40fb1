#include "viewer/lesson.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "viewer/display_text.h"

namespace qkv::viewer {
namespace {

TEST(NumberText, KeepsTheDigitsThatMatter) {
  EXPECT_EQ(number_text(1024), "1024");
  EXPECT_EQ(number_text(63.94), "63.9");
  EXPECT_EQ(number_text(1.5), "1.50");
  EXPECT_EQ(number_text(0.014), "0.01");
  EXPECT_EQ(number_text(0.00068), "6.8e-04");
  EXPECT_EQ(number_text(0), "0.00");
  EXPECT_EQ(number_text(-20), "-20.0");
  EXPECT_EQ(number_text(2.5e9), "2.5e+09");
}

TEST(NumberText, TakesWhatIsNoNumber) {
  EXPECT_EQ(number_text(std::nan("")), "nan");
  EXPECT_EQ(number_text(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(number_text(std::numeric_limits<double>::max()), "1.8e+308");
}

TEST(TenthsText, HasOneDigitAfterThePoint) {
  EXPECT_EQ(tenths_text(5.67), "5.7");
  EXPECT_EQ(tenths_text(13), "13.0");
  EXPECT_EQ(tenths_text(std::numeric_limits<double>::max()).size(), 311U);
}

TEST(PercentText, ShowsThatALittleIsNotNothing) {
  EXPECT_EQ(percent_text(0.154), "15%");
  EXPECT_EQ(percent_text(0.004), "<1%");
  EXPECT_EQ(percent_text(0), "0%");
  EXPECT_EQ(percent_text(std::nan("")), "nan");
}

TEST(RangeText, IsOneNumberWhereBothReadAlike) {
  EXPECT_EQ(range_text("4%", "15%"), "4% to 15%");
  EXPECT_EQ(range_text("4%", "4%"), "4%");
}

TEST(CountText, ReadsLikeASentence) {
  EXPECT_EQ(count_text(6, 6, "layer"), "in all 6 layers");
  EXPECT_EQ(count_text(5, 6, "layer"), "in 5 of 6 layers");
  EXPECT_EQ(count_text(0, 6, "layer"), "in none of 6 layers");
  EXPECT_EQ(count_text(1, 1, "layer"), "in all 1 layer");
}

}  // namespace
}  // namespace qkv::viewer
