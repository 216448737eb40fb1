#include "qkv/core/check.h"

#include <gtest/gtest.h>

#include <string>

namespace qkv {
namespace {

template <class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

TEST(Check, SaysFunctionWhatGotAndExpectedOnOneLine) {
  EXPECT_EQ(message_of([] { check(false, "attention", "k.shape[3]", 32, "64 as in q"); }),
            "attention: k.shape[3]: got 32, expected 64 as in q");
  EXPECT_EQ(message_of([] { check(false, "f", "scale", -0.5, std::string("a finite number")); }),
            "f: scale: got -0.5, expected a finite number");
}

TEST(Check, ThrowsOnlyIfTheConditionFails) {
  EXPECT_EQ(message_of([] { check(true, "f", "x", 1, 2); }), "no error");
}

TEST(CheckEqual, ComparesAndShowsBothValues) {
  EXPECT_EQ(message_of([] { check_equal("f", "length", Index{3}, Index{4}); }), "f: length: got 3, expected 4");
  EXPECT_EQ(message_of([] { check_equal("f", "length", Index{4}, Index{4}); }), "no error");
}

TEST(ThrowInvalid, AlwaysThrows) {
  EXPECT_EQ(message_of([] { throw_invalid("f", "name", "x", "y"); }), "f: name: got x, expected y");
}

}  // namespace
}  // namespace qkv
