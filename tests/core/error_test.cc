#include "qkv/core/error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <system_error>

namespace qkv {
namespace {

TEST(FormatError, SaysPathByteAndProblem) {
  const FormatError error("a/b.json", 12, "syntax: got x, expected y");
  EXPECT_STREQ(error.what(), "a/b.json: byte 12: syntax: got x, expected y");
  EXPECT_EQ(error.path(), "a/b.json");
  EXPECT_EQ(error.byte_offset(), 12u);
}

TEST(FormatError, KeepsPlacesBeyond32Bits) {
  const std::uint64_t place = (std::uint64_t{1} << 40) + 1;
  const FormatError error("x", place, "");
  EXPECT_EQ(error.byte_offset(), place);
  EXPECT_STREQ(error.what(), "x: byte 1099511627777: ");
}

TEST(FormatError, IsARuntimeError) {
  EXPECT_THROW(throw FormatError("x", 0, ""), std::runtime_error);
}

TEST(IoError, SaysWhatCouldNotBeDoneAndWhy) {
  const IoError error("a/b.json", "open", ENOENT);
  EXPECT_EQ(std::string(error.what()), "cannot open a/b.json: " + std::generic_category().message(ENOENT));
  EXPECT_EQ(error.path(), "a/b.json");
}

TEST(IoError, HoldsTheErrorOfTheSystem) {
  EXPECT_EQ(IoError("x", "read", EISDIR).code(), std::errc::is_a_directory);
  EXPECT_THROW(throw IoError("x", "read", EIO), std::system_error);
}

}  // namespace
}  // namespace qkv
