#include "qkv/text/utf8.h"

#include <gmock/gmock.h>

#include "tests/text/text_support.h"

namespace qkv::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using std::string_literals::operator""s;

std::string error_of(const std::string& text) {
  try {
    decode_utf8(text, "encode");
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

TEST(Utf8, CharactersOfOneToFourBytesKnowTheirBytes) {
  EXPECT_THAT(decode_utf8("a\u00e9\u4e2d\U0001f600", "encode"),
              ElementsAre(AlignedChar{U'a', {0, 1}}, AlignedChar{0xe9, {1, 3}}, AlignedChar{0x4e2d, {3, 6}},
                          AlignedChar{0x1f600, {6, 10}}));
}

TEST(Utf8, AnEmptyTextHasNoCharacters) {
  EXPECT_TRUE(decode_utf8("", "encode").empty());
}

TEST(Utf8, ANulByteIsACharacter) {
  EXPECT_THAT(decode_utf8("a\0b"s, "encode"),
              ElementsAre(AlignedChar{U'a', {0, 1}}, AlignedChar{0, {1, 2}}, AlignedChar{U'b', {2, 3}}));
}

TEST(Utf8, NoncharactersAreValid) {
  EXPECT_EQ(error_of("\xef\xbf\xbe\xef\xbf\xbf\xf4\x8f\xbf\xbf"), "no error");
}

TEST(Utf8, AStrayByteIsNamedWithItsPlace) {
  EXPECT_EQ(error_of("ab\xff"), "encode: text: got byte 0xFF at offset 2, expected valid UTF-8");
  EXPECT_EQ(error_of("\x80"), "encode: text: got byte 0x80 at offset 0, expected valid UTF-8");
}

TEST(Utf8, ACharacterCutShortIsNamedByItsFirstByte) {
  EXPECT_THAT(error_of("a\xe4\xb8"), HasSubstr("byte 0xE4 at offset 1,"));
  EXPECT_THAT(error_of("\xf0\x9f\x98 x"), HasSubstr("byte 0xF0 at offset 0,"));
}

TEST(Utf8, OverlongFormsSurrogatesAndValuesTooLargeAreRefused) {
  EXPECT_THAT(error_of("\xc0\xaf"), HasSubstr("byte 0xC0"));          // '/' in two bytes
  EXPECT_THAT(error_of("\xe0\x80\xaf"), HasSubstr("byte 0xE0"));      // '/' in three
  EXPECT_THAT(error_of("\xed\xa0\x80"), HasSubstr("byte 0xED"));      // U+D800
  EXPECT_THAT(error_of("\xf4\x90\x80\x80"), HasSubstr("byte 0xF4"));  // U+110000
}

TEST(Utf8, EveryCodePointSurvivesEncodingAndDecoding) {
  for (char32_t code_point = 0; code_point < 0x110000; ++code_point) {
    if (code_point == 0xd800) code_point = 0xe000;
    std::string bytes;
    append_utf8(code_point, bytes);
    const AlignedText text = decode_utf8(bytes, "test");
    ASSERT_EQ(text.size(), 1u);
    ASSERT_EQ(text[0].code_point, code_point);
    ASSERT_EQ(text[0].source.end, static_cast<Index>(bytes.size()));
  }
}

TEST(Utf8, TheFirstInvalidByteIsFound) {
  EXPECT_EQ(find_invalid_utf8("a\u00e9"), std::nullopt);
  EXPECT_EQ(find_invalid_utf8("a\u00e9\xc3(\xff"), 3);
}

}  // namespace
}  // namespace qkv::testing
