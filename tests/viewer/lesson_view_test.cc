#include "viewer/lesson_view.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

#include "tests/viewer/record_support.h"
#include "viewer/display_text.h"
#include "viewer/lesson_json.h"

namespace qkv::viewer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ScaleLesson scale_lesson() {
  ScaleLesson lesson;
  lesson.options.seed = 77;
  lesson.variances = {{4, 4.1, 1.02, .03}, {1024, 1020, .99, .02}};
  lesson.saturations = {{4, {.25, 2.9, 1.7, 1.8}, {.098, 3.7, 1.92, 1.93}},
                        {1024, {.95, .1, .14, .0007}, {.102, 3.7, 1.92, 1.93}}};
  return lesson;
}

HeadsLesson heads_lesson() {
  const Look look{.shares = {.self = .2, .previous = .05, .cls = .6, .other = .15}, .num_keys = 2.5};
  HeadsLesson lesson{.model = "toy", .tokens = testing::tokens({"[CLS]", "a", "b", "[SEP]"}), .layers = {}};
  lesson.num_queries = 2;
  lesson.embed_dim = 8;
  lesson.layers = {{look, look, std::vector<Look>(12, look), look, 3.25}};
  return lesson;
}

// With line breaks made blanks, as they fall where the width says.
std::string flat(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

TEST(LessonView, IsNoWiderThanTheTerminal) {
  for (const Index width : {20, 40, 80, 200}) {
    for (const std::string& view : {scale_view(scale_lesson(), {.width = width}),
                                    heads_view(heads_lesson(), std::string(3000, 'x'), {.width = width})}) {
      std::istringstream in(view);
      for (std::string line; std::getline(in, line);) EXPECT_LE(display_width(line), width) << line;
    }
  }
}

TEST(LessonView, HasEscapesOnlyWithColors) {
  EXPECT_THAT(scale_view(scale_lesson(), {}), Not(HasSubstr("\033")));
  EXPECT_THAT(heads_view(heads_lesson(), "a b", {}), Not(HasSubstr("\033")));
  EXPECT_THAT(heads_view(heads_lesson(), "a b", {.color = ColorDepth::k256}), HasSubstr("\033"));
}

TEST(LessonView, TextsCannotControlTheTerminal) {
  EXPECT_THAT(heads_view(heads_lesson(), "a\033[31m\nb", {}), HasSubstr("\"a\\x1b[31m\\nb\""));
}

TEST(LessonView, SaysWhatWasMeasuredOnWhat) {
  const std::string scale = scale_view(scale_lesson(), {.width = 1000});
  for (const char* part : {"4000 pairs", "seed 77", "2048 rows", "64 keys", "1024"})
    EXPECT_THAT(scale, HasSubstr(part));
  const std::string heads = heads_view(heads_lesson(), "a b", {.width = 1000});
  for (const char* part : {"toy", "\"a b\"", "2 tokens that are not special", "25%", "sqrt(8)", "[CLS]", "[SEP]"})
    EXPECT_THAT(heads, HasSubstr(part));
}

TEST(LessonView, SaysOfEachClaimWhatTheNumbersSay) {
  ScaleLesson lesson = scale_lesson();
  EXPECT_THAT(flat(scale_view(lesson, {})), Not(HasSubstr("does not hold")));
  lesson.variances[1].divided = 2;
  EXPECT_THAT(flat(scale_view(lesson, {})), HasSubstr("brings it back to 1:    does not hold here: at d_k = 1024"));
}

TEST(LessonView, CountsTheHeadsByWhatTheyLookAt) {
  const std::string view = heads_view(heads_lesson(), "a b", {});
  EXPECT_THAT(view, HasSubstr("    0       0         0     0     12      0             0\n"));
  EXPECT_THAT(view, HasSubstr("  all       0         0     0     12      0             0\n"));
}

TEST(LessonJson, HoldsTheNumbersAndTheClaims) {
  const Json scale = to_json(scale_lesson());
  EXPECT_EQ(scale["lesson"], "scale");
  EXPECT_EQ(scale["variance"]["rows"][1]["undivided"], 1020.0F);
  EXPECT_EQ(scale["softmax"]["rows"][1]["undivided"]["median_gradient"], .0007F);
  EXPECT_EQ(scale["claims"].size(), 3U);
  EXPECT_EQ(scale["claims"][0]["holds"], true);
  const Json heads = to_json(heads_lesson(), "a b");
  EXPECT_EQ(heads["lesson"], "heads");
  EXPECT_EQ(heads["text"], "a b");
  EXPECT_EQ(heads["even_weight"], .25F);
  EXPECT_EQ(heads["layers"][0]["heads"].size(), 12U);
  EXPECT_EQ(heads["layers"][0]["heads"][3]["main_place"], "cls");
  EXPECT_EQ(heads["layers"][0]["together"]["self"], .2F);
  EXPECT_EQ(heads["layers"][0]["num_strongest"], 3.25F);
}

}  // namespace
}  // namespace qkv::viewer
