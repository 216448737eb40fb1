#include "qkv/core/in_quotes.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace qkv {
namespace {

TEST(InQuotes, LeavesPlainTextAlone) {
  EXPECT_EQ(in_quotes("encoder.layer.0.weight"), "\"encoder.layer.0.weight\"");
}

TEST(InQuotes, EscapesLineEndsTerminalCodesAndQuotes) {
  EXPECT_EQ(in_quotes("a\nb\x1b[31m\"\\"), "\"a\\nb\\x1b[31m\\\"\\\\\"");
}

TEST(InQuotes, WritesAllElseAsAscii) {
  EXPECT_EQ(in_quotes("\xc3\xa9"), "\"\\xc3\\xa9\"");
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text = in_quotes(std::string(1, static_cast<char>(byte)));
    EXPECT_TRUE(std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; })) << "byte " << byte;
  }
}

TEST(InQuotes, CutsLongText) {
  EXPECT_EQ(in_quotes(std::string(1000, 'x')), '"' + std::string(80, 'x') + "...\"");
}

}  // namespace
}  // namespace qkv
