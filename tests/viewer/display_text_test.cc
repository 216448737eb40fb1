#include "viewer/display_text.h"

#include <gmock/gmock.h>

namespace qkv::viewer {
namespace {

constexpr const char* kJapan = "\u65e5\u672c";
constexpr const char* kThumb = "\U0001f44d";
constexpr const char* kAcute = "e\u0301";
// Man, woman and girl, joined to one picture.
constexpr const char* kFamily = "\U0001f468\u200d\U0001f469\u200d\U0001f467";

// https://github.com/ihabunek/toot/pull/576
TEST(DisplayWidth, CountsColumnsAndNotCodePoints) {
  EXPECT_EQ(display_width("a"), 1);
  EXPECT_EQ(display_width(kJapan), 4);
  EXPECT_EQ(display_width(kThumb), 2);
  EXPECT_EQ(display_width(kAcute), 1);
  EXPECT_EQ(display_width("[PAD]"), 5);
}

// https://github.com/hardwood-hq/hardwood/issues/866
TEST(DisplayWidth, GivesEmojiTwoColumnsAndMarksNone) {
  EXPECT_EQ(display_width(kFamily), 2);
  EXPECT_EQ(display_width("\u2764\ufe0f"), 2);          // a heart, asked to be an emoji
  EXPECT_EQ(display_width("\U0001f1e9\U0001f1ea"), 2);  // a flag
  EXPECT_EQ(display_width("\u0301"), 0);
}

TEST(CutToWidth, NeverSplitsACluster) {
  EXPECT_EQ(cut_to_width(kJapan, 4, "\u2026"), kJapan);
  EXPECT_EQ(cut_to_width(kJapan, 3, "\u2026"), "\u65e5\u2026");
  EXPECT_EQ(cut_to_width(kJapan, 2, "\u2026"), "\u2026");
  EXPECT_EQ(cut_to_width(std::string(kAcute) + "bc", 2, "\u2026"), std::string(kAcute) + "\u2026");
  EXPECT_EQ(cut_to_width(std::string(kFamily) + "bc", 3, "\u2026"), std::string(kFamily) + "\u2026");
  EXPECT_EQ(cut_to_width("animal", 4, ".."), "an..");
  EXPECT_EQ(cut_to_width("animal", 1, ".."), ".");
  EXPECT_EQ(cut_to_width("animal", 0, ".."), "");
}

TEST(Pad, FillsColumnsAndNotBytes) {
  EXPECT_EQ(pad_left(kJapan, 6), std::string("  ") + kJapan);
  EXPECT_EQ(pad_right(kAcute, 3), std::string(kAcute) + "  ");
  EXPECT_EQ(pad_right("animal", 3), "animal");
}

TEST(Printable, EscapesWhatControlsATerminal) {
  EXPECT_EQ(printable("\x1b[31m"), "\\x1b[31m");
  EXPECT_EQ(printable("a\nb\r\t"), "a\\nb\\r\\t");
  EXPECT_EQ(printable(std::string("\0\x7f", 2)), "\\x00\\x7f");
  EXPECT_EQ(printable("\u0085\u202e\u2028\ufeff"), "\\u0085\\u202e\\u2028\\ufeff");
  EXPECT_EQ(printable("\U000e0001"), "\\U000e0001");
}

TEST(Printable, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(printable("a\xff\xc3"), "a\\xff\\xc3");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
}

TEST(Printable, LeavesTextAlone) {
  for (const char* text : {"animal", kJapan, kThumb, kAcute, kFamily, "\u00a0"}) EXPECT_EQ(printable(text), text);
}

TEST(HasContent, IsTrueForWhatAReaderCallsAWord) {
  for (const char* text : {"it", "##s", "3", kJapan, kThumb, "\u00e9"}) EXPECT_TRUE(has_content(text)) << text;
  for (const char* text : {"", ".", "'", "##", "\u3002", "+", " "}) EXPECT_FALSE(has_content(text)) << text;
}

}  // namespace
}  // namespace qkv::viewer
