#include "qkv/models/load_model.h"

#include "models/toy_bert.h"
#include "nn/layer_support.h"
#include "qkv/core/error.h"

namespace qkv::test {
namespace {

TEST(LoadModel, ReadsAFolder) {
  const ModelFolder folder;
  ToyBert().write(folder);
  const LoadedModel model = load_model(folder.path());
  EXPECT_EQ(std::get<Bert>(model.model).blocks.size(), 2u);
  EXPECT_EQ(model.tokenizer.vocab_size(), 12);
  EXPECT_EQ(model.sentence.max_tokens, 16);
}

TEST(LoadModel, NamesTheModelAfterItsFolderHoweverThePathIsWritten) {
  const ModelFolder folder;
  ToyBert().write(folder);
  const std::string name = std::filesystem::path(folder.path()).filename();
  EXPECT_EQ(load_model(folder.path()).name, name);
  EXPECT_EQ(load_model(folder.path() + "/").name, name);
  EXPECT_EQ(load_model(folder.path() + "/.").name, name);
}

TEST(LoadModel, RefusesAFolderThatIsNone) {
  const ModelFolder folder;
  EXPECT_THROW(load_model(folder.file("none")), IoError);
  folder.write("file", "text");
  EXPECT_THROW(load_model(folder.file("file")), IoError);
}

TEST(LoadModel, NamesTheFileThatIsMissing) {
  for (const char* name : {"config.json", "vocab.txt", "model.safetensors"}) {
    const ModelFolder folder;
    ToyBert().write(folder);
    folder.remove(name);
    EXPECT_THAT(error_of<IoError>([&] { load_model(folder.path()); }), holds(name));
  }
}

TEST(LoadModel, SaysWhichWeightsItFoundInPlaceOfItsOwn) {
  for (const char* other : {"model.safetensors.index.json", "pytorch_model.bin"}) {
    const ModelFolder folder;
    ToyBert().write(folder);
    folder.remove("model.safetensors");
    folder.write(other, "{}");
    EXPECT_THAT(
        invalid([&] { load_model(folder.path()); }),
        holds("load_model: weights in " + folder.path(), std::string("got ") + other, "expected model.safetensors"));
  }
}

TEST(LoadModel, RefusesAVocabularyLargerThanTheEmbedding) {
  const ModelFolder folder;
  ToyBert toy;
  toy.vocab += "more\n";
  toy.write(folder);
  EXPECT_THAT(invalid([&] { load_model(folder.path()); }),
              holds("load_model: vocab_size in " + folder.file("config.json"), "got 12, expected at least 13"));
}

TEST(LoadModel, TakesAVocabularySmallerThanTheEmbedding) {
  const ModelFolder folder;
  ToyBert toy;
  toy.vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n";
  toy.write(folder);
  EXPECT_EQ(load_model(folder.path()).tokenizer.vocab_size(), 6);
}

TEST(LoadModel, RefusesAConfigThatContradictsTheWeights) {
  const ModelFolder folder;
  ToyBert toy;
  toy.config["intermediate_size"] = 24;
  toy.write(folder);
  EXPECT_THAT(error_of<FormatError>([&] { load_model(folder.path()); }),
              holds("model.safetensors", "got 6 tensors", "has shape [20] where config.json says [24]"));
}

TEST(LoadModel, RefusesWeightsCutShort) {
  const ModelFolder folder;
  ToyBert toy;
  toy.write(folder);
  const std::string weights = toy.weights();
  folder.write("model.safetensors", weights.substr(0, weights.size() - 5));
  EXPECT_THROW(load_model(folder.path()), FormatError);
}

}  // namespace
}  // namespace qkv::test
