#include "cli/suggest.h"

#include <gtest/gtest.h>

namespace qkv::cli {
namespace {

const std::vector<std::string> kCommands{"look", "attend", "tokenize", "embed", "inspect", "info"};

TEST(Closest, FindsWhatEachKindOfSlipMeant) {
  EXPECT_EQ(closest("attnd", kCommands), "attend") << "a letter left out";
  EXPECT_EQ(closest("atttend", kCommands), "attend") << "one too many";
  EXPECT_EQ(closest("attemd", kCommands), "attend") << "another one";
  EXPECT_EQ(closest("atetnd", kCommands), "attend") << "two neighbours swapped";
  EXPECT_EQ(closest("look", kCommands), "look");
}

TEST(Closest, CountsASwapAsOneEdit) {
  EXPECT_EQ(closest("abd", {"adb"}), "adb");
  EXPECT_EQ(closest("abd", {"axy"}), std::nullopt);
}

TEST(Closest, FindsNothingBeyondAThirdOfTheLetters) {
  EXPECT_EQ(closest("loook", kCommands), "look");
  EXPECT_EQ(closest("lo", kCommands), std::nullopt) << "2 of 4 letters";
  EXPECT_EQ(closest("abcxyz", {"abcdef"}), std::nullopt) << "3 of 6";
  EXPECT_EQ(closest("abcdyz", {"abcdef"}), "abcdef") << "2 of 6";
  EXPECT_EQ(closest("", kCommands), std::nullopt);
  EXPECT_EQ(closest("look", {}), std::nullopt);
}

TEST(Closest, TakesTheNearestAndTheFirstOfEquals) {
  EXPECT_EQ(closest("inpect", {"insect", "inspect"}), "insect") << "both are one edit away";
  EXPECT_EQ(closest("inpects", {"insect", "inspects"}), "inspects");
}

TEST(Closest, LeavesLongWordsAlone) {
  const std::string longest(64, 'x'), longer(65, 'x');
  EXPECT_EQ(closest(longest, {longest}), longest);
  EXPECT_EQ(closest(longer, {longest}), std::nullopt);
  EXPECT_EQ(closest(longest, {longer}), std::nullopt);
}

TEST(DidYouMean, IsAQuestionOrNothing) {
  EXPECT_EQ(did_you_mean("lok", kCommands), "; did you mean 'look'?");
  EXPECT_EQ(did_you_mean("quux", kCommands), "");
}

}  // namespace
}  // namespace qkv::cli
