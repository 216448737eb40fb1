#include "qkv/text/vocab.h"

#include <gmock/gmock.h>

#include <stdexcept>

namespace qkv {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Property;
using ::testing::Throws;

TEST(Vocab, TheIdOfATokenIsItsPlace) {
  const Vocab vocab({"a", "##b", "c d"});
  EXPECT_EQ(vocab.size(), 3);
  EXPECT_EQ(vocab.id_of("a"), 0);
  EXPECT_EQ(vocab.id_of("##b"), 1);
  EXPECT_EQ(vocab.id_of("c d"), 2);
  EXPECT_EQ(vocab.token_of(1), "##b");
}

TEST(Vocab, AnUnknownTokenHasNoId) {
  const Vocab vocab({"a"});
  EXPECT_EQ(vocab.id_of("A"), std::nullopt);
  EXPECT_EQ(vocab.id_of(""), std::nullopt);
  EXPECT_EQ(Vocab().id_of("a"), std::nullopt);
}

TEST(Vocab, AnEmptyStringTakesAnIdAndIsNeverFound) {
  const Vocab vocab({"", "a", ""});
  EXPECT_EQ(vocab.size(), 3);
  EXPECT_EQ(vocab.id_of("a"), 1);
  EXPECT_EQ(vocab.id_of(""), std::nullopt);
  EXPECT_EQ(vocab.token_of(2), "");
}

TEST(Vocab, ATokenTwiceIsAnErrorThatNamesBothPlaces) {
  EXPECT_THAT(
      [] {
        Vocab({"x", "a", "b", "a"});
      },
      Throws<std::invalid_argument>(Property(&std::exception::what, AllOf(HasSubstr("3"), HasSubstr("1")))));
}

TEST(Vocab, AnIdBeyondTheEndIsOutOfRange) {
  const Vocab vocab({"a"});
  EXPECT_THROW(vocab.token_of(-1), std::out_of_range);
  EXPECT_THROW(vocab.token_of(1), std::out_of_range);
}

TEST(Vocab, AppendGivesTheNextIdAndKnowsTheLongest) {
  Vocab vocab({"a"});
  EXPECT_EQ(vocab.append("abc"), 1);
  EXPECT_EQ(vocab.append("ab"), 2);
  EXPECT_EQ(vocab.longest_token(), 3);
}

}  // namespace
}  // namespace qkv
