#include "viewer/json.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/viewer/record_support.h"

namespace qkv::viewer {
namespace {

using testing::Rows;

Record cat_sat() {
  return testing::record({"[CLS]", "cat", "sat"}, {{Rows{{1, 0, 0}, {.1F, .2F, .7F}, {1.0F / 3, 1.0F / 3, 1.0F / 3}}}});
}

nlohmann::json parsed(const Picture& picture) {
  return nlohmann::json::parse(to_line(to_json(picture)));
}

TEST(ToJson, HoldsTheNumbersOfThePicture) {
  const auto json = parsed(make_picture(cat_sat(), {.from = TokenRun{1, 2}, .to = TokenRun{2, 3}}));
  EXPECT_EQ(json["model"], "toy");
  EXPECT_EQ(json["tokens"], (std::vector<std::string>{"[CLS]", "cat", "sat"}));
  EXPECT_EQ(json["layer"], 0);
  EXPECT_EQ(json["head"], 0);
  EXPECT_EQ(json["from"], std::vector<int>{1});
  EXPECT_EQ(json["to"], std::vector<int>{2});
  EXPECT_EQ(json["special"], "show");
  EXPECT_FALSE(json.contains("hidden"));
  EXPECT_FALSE(json.contains("reason"));
  EXPECT_EQ(json["ranking"].size(), 1U);
  EXPECT_EQ(json["ranking"][0]["weight"].get<float>(), .7F);
}

TEST(ToJson, FloatsReadBackBitForBit) {
  const auto json = parsed(make_picture(cat_sat(), {}));
  EXPECT_EQ(json["weights"][2][0].get<float>(), 1.0F / 3);
  EXPECT_EQ(json["weights"][1].get<std::vector<float>>(), (std::vector<float>{.1F, .2F, .7F}));
  const float tiny = std::nextafter(0.0F, 1.0F);
  EXPECT_EQ(nlohmann::json::parse(to_line(Json(tiny))).get<float>(), tiny);
}

TEST(ToJson, NanIsNull) {
  Record record = cat_sat();
  record.attn_weights[0](0, 0, 0, 0) = std::numeric_limits<float>::quiet_NaN();
  record.attn_weights[0](0, 0, 0, 1) = std::numeric_limits<float>::infinity();
  const auto json = parsed(make_picture(record, {.layer = 0, .head = 0, .from = TokenRun{1, 2}}));
  EXPECT_TRUE(json["weights"][0][0].is_null());
  EXPECT_TRUE(json["weights"][0][1].is_null());
}

TEST(ToJson, SaysWhatIsHidden) {
  const auto json = parsed(make_picture(cat_sat(), {.from = TokenRun{1, 2}, .special = SpecialTokens::kHide}));
  EXPECT_EQ(json["special"], "hide");
  EXPECT_EQ(json["tokens"], (std::vector<std::string>{"cat", "sat"}));
  EXPECT_EQ(json["hidden"]["tokens"], std::vector<std::string>{"[CLS]"});
  EXPECT_EQ(json["hidden"]["weights"][0][0].get<float>(), .1F);
  EXPECT_TRUE(json.contains("reason"));
}

// https://github.com/jessevig/bertviz/issues/67
TEST(ToJson, NamesRowsAndColumnsApartWhereTheyDiffer) {
  Picture picture;
  picture.queries = testing::tokens({"x", "y"});
  picture.keys = testing::tokens({"a", "b", "c"});
  picture.weights = Tensor<float, 2>({2, 3}, .25F);
  const auto json = parsed(picture);
  EXPECT_EQ(json["queries"], (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(json["keys"], (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(json["weights"].size(), 2U);
  EXPECT_EQ(json["weights"][0].size(), 3U);
}

TEST(ToLine, IsOneLineOfValidUtf8) {
  EXPECT_EQ(to_line(Json{{"a", "x\ny"}}), "{\"a\":\"x\\ny\"}\n");
  EXPECT_EQ(to_line(Json("\xff")), "\"\xef\xbf\xbd\"\n");
}

}  // namespace
}  // namespace qkv::viewer
