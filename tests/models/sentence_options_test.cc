#include "qkv/models/sentence_options.h"

#include "models/toy_bert.h"
#include "nn/layer_support.h"
#include "qkv/core/error.h"

namespace qkv::test {
namespace {

constexpr const char* kTransformer =
    R"({"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"})";
constexpr const char* kPooling =
    R"({"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"})";
constexpr const char* kNormalize =
    R"({"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"})";

void write_modules(const ModelFolder& folder, const std::vector<std::string>& modules) {
  std::string list;
  for (const std::string& module : modules) list += (list.empty() ? "" : ", ") + module;
  folder.write("modules.json", "[" + list + "]");
}

SentenceOptions load(const ModelFolder& folder) {
  return load_sentence_options(folder.path(), {.embed_dim = 12, .max_positions = 16});
}

std::string refusal(const ModelFolder& folder) {
  return error_of<FormatError>([&] { load(folder); });
}

// A folder as sentence-transformers writes it.
void write_usual(const ModelFolder& folder) {
  write_modules(folder, {kTransformer, kPooling, kNormalize});
  folder.write("1_Pooling/config.json", R"({"word_embedding_dimension": 12, "pooling_mode_cls_token": false,
                                            "pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": false})");
  folder.write("sentence_bert_config.json", R"({"max_seq_length": 9, "do_lower_case": false})");
}

TEST(SentenceOptions, ReadTheUsualFolder) {
  const ModelFolder folder;
  write_usual(folder);
  const SentenceOptions options = load(folder);
  EXPECT_EQ(options.pooling, Pooling::kMean);
  EXPECT_TRUE(options.normalize);
  EXPECT_EQ(options.max_tokens, 9);
}

TEST(SentenceOptions, WithoutModulesAreMeanPoolingAlone) {
  const ModelFolder folder;
  const SentenceOptions options = load(folder);
  EXPECT_EQ(options.pooling, Pooling::kMean);
  EXPECT_FALSE(options.normalize);
  EXPECT_EQ(options.max_tokens, 16);
}

TEST(SentenceOptions, WithoutTheNormalizeModuleDoNotNormalise) {
  const ModelFolder folder;
  write_usual(folder);
  write_modules(folder, {kTransformer, kPooling});
  EXPECT_FALSE(load(folder).normalize);
}

TEST(SentenceOptions, KnowEachPoolingByItsFlagAndByItsName) {
  const ModelFolder folder;
  write_usual(folder);
  const std::vector<std::pair<std::string, Pooling>> configs{{R"({"pooling_mode_cls_token": true})", Pooling::kCls},
                                                             {R"({"pooling_mode_max_tokens": true})", Pooling::kMax},
                                                             {R"({"pooling_mode_mean_tokens": true})", Pooling::kMean},
                                                             {R"({"pooling_mode": "cls"})", Pooling::kCls},
                                                             {R"({"pooling_mode": "max"})", Pooling::kMax},
                                                             {R"({"pooling_mode": "mean"})", Pooling::kMean}};
  for (const auto& [config, pooling] : configs) {
    folder.write("1_Pooling/config.json", config);
    EXPECT_EQ(load(folder).pooling, pooling) << config;
  }
}

TEST(SentenceOptions, RefuseOtherPoolings) {
  const ModelFolder folder;
  write_usual(folder);
  folder.write("1_Pooling/config.json", R"({"pooling_mode_lasttoken": true})");
  EXPECT_THAT(refusal(folder), holds("1_Pooling/config.json", "pooling_mode_lasttoken: got true"));
  folder.write("1_Pooling/config.json", R"({"pooling_mode_cls_token": true, "pooling_mode_max_tokens": true})");
  EXPECT_THAT(refusal(folder), holds("got 2 keys pooling_mode_* that are true"));
  folder.write("1_Pooling/config.json", "{}");
  EXPECT_THAT(refusal(folder), holds("got 0 keys pooling_mode_* that are true"));
  folder.write("1_Pooling/config.json", R"({"pooling_mode": "sum"})");
  EXPECT_THAT(refusal(folder), holds("pooling_mode: got \"sum\""));
  folder.write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens": 1})");
  EXPECT_THAT(refusal(folder), holds("pooling_mode_mean_tokens: got 1, expected true or false"));
}

TEST(SentenceOptions, RefuseAPoolingOfAnotherWidth) {
  const ModelFolder folder;
  write_usual(folder);
  folder.write("1_Pooling/config.json", R"({"word_embedding_dimension": 11, "pooling_mode_mean_tokens": true})");
  EXPECT_THAT(refusal(folder), holds("word_embedding_dimension: got 11, expected 12"));
}

TEST(SentenceOptions, NeverAllowMoreTokensThanPositions) {
  const ModelFolder folder;
  write_usual(folder);
  folder.write("sentence_bert_config.json", R"({"max_seq_length": 512})");
  EXPECT_EQ(load(folder).max_tokens, 16);
  folder.write("sentence_bert_config.json", R"({"max_seq_length": null})");
  EXPECT_EQ(load(folder).max_tokens, 16);
  folder.remove("sentence_bert_config.json");
  EXPECT_EQ(load(folder).max_tokens, 16);
  folder.write("sentence_bert_config.json", R"({"max_seq_length": 1})");
  EXPECT_THAT(refusal(folder), holds("max_seq_length: got 1"));
}

TEST(SentenceOptions, RefuseOtherModules) {
  const ModelFolder folder;
  write_usual(folder);
  const std::string dense = R"({"path": "2_Dense", "type": "sentence_transformers.models.Dense"})";
  write_modules(folder, {kTransformer, kPooling, dense});
  EXPECT_THAT(refusal(folder), holds("modules.json: byte ",
                                     "[2].type: got \"sentence_transformers.models.Dense\", expected \"Normalize\""));
  write_modules(folder, {kTransformer});
  EXPECT_THAT(refusal(folder), holds("got 1 modules"));
  write_modules(folder, {kPooling, kTransformer});
  EXPECT_THAT(refusal(folder),
              holds("[0].type: got \"sentence_transformers.models.Pooling\", expected \"Transformer\""));
  folder.write("modules.json", "{}");
  EXPECT_THAT(refusal(folder), holds("got an object, expected an array"));
  folder.write("modules.json", "[1, 2]");
  EXPECT_THAT(refusal(folder), holds("got 1, expected an object"));
}

TEST(SentenceOptions, DoNotFollowAPathOutOfTheFolder) {
  const ModelFolder folder;
  write_usual(folder);
  for (const char* path : {"../1_Pooling", "/etc", "1_Pooling/../../x"}) {
    write_modules(folder, {kTransformer, R"({"path": ")" + std::string(path) + R"(", "type": "x.Pooling"})"});
    EXPECT_THAT(refusal(folder), holds("path: got \"", "expected a folder inside the model's")) << path;
  }
}

TEST(SentenceOptions, RefuseATransformerInAFolderOfItsOwn) {
  const ModelFolder folder;
  write_usual(folder);
  write_modules(folder, {R"({"path": "0_Transformer", "type": "x.Transformer"})", kPooling});
  EXPECT_THAT(refusal(folder), holds("[0].path: got \"0_Transformer\", expected \"\", the folder itself"));
}

TEST(SentenceOptions, SayWhichFileIsMissing) {
  const ModelFolder folder;
  write_usual(folder);
  folder.remove("1_Pooling");
  EXPECT_THAT(error_of<IoError>([&] { load(folder); }), holds("1_Pooling/config.json"));
}

}  // namespace
}  // namespace qkv::test
