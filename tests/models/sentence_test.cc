#include "qkv/models/sentence.h"

#include "models/toy_bert.h"
#include "nn/layer_support.h"

namespace qkv::test {
namespace {

LoadedModel toy_model() {
  const ModelFolder folder;
  ToyBert().write(folder);
  return load_model(folder.path());
}

// The last hidden states of one text, run alone: [len, embed_dim] values in one row after the other.
Tensor<float, 3> hidden_states(const LoadedModel& model, const std::vector<std::int32_t>& ids) {
  auto output = forward(std::get<Bert>(model.model), {ids.data(), {1, static_cast<Index>(ids.size())}});
  return std::move(output.hidden_states.back());
}

std::vector<double> mean_of(const Tensor<float, 3>& hidden) {
  std::vector<double> mean(static_cast<std::size_t>(hidden.shape(2)), 0);
  for (Index i = 0; i < hidden.shape(1); ++i)
    for (Index d = 0; d < hidden.shape(2); ++d)
      mean[static_cast<std::size_t>(d)] += hidden(0, i, d) / static_cast<double>(hidden.shape(1));
  return mean;
}

void expect_row(const Tensor<float, 2>& vectors, Index row, const std::vector<double>& expected) {
  for (Index d = 0; d < vectors.shape(1); ++d)
    EXPECT_NEAR(vectors(row, d), expected[static_cast<std::size_t>(d)], 2e-6) << "row " << row << " dim " << d;
}

TEST(EmbedSentences, GivesTheMeanOverTheTokensOfEachSentence) {
  const LoadedModel model = toy_model();
  const std::vector<std::string> sentences{"the cat sat on the mat.", "cats", "the mat"};
  const auto got = embed_sentences(model, sentences);
  ASSERT_EQ(got.vectors.shape(), (Shape<2>{3, 12}));
  EXPECT_TRUE(got.truncated.empty());
  for (Index n = 0; n < 3; ++n)
    expect_row(got.vectors, n,
               mean_of(hidden_states(model, model.tokenizer.encode(sentences[static_cast<std::size_t>(n)]).ids)));
}

TEST(EmbedSentences, EmbedsAnEmptySentenceAsItsSpecialTokens) {
  const LoadedModel model = toy_model();
  const std::vector<std::string> sentences{"", "the"};
  expect_row(embed_sentences(model, sentences).vectors, 0, mean_of(hidden_states(model, {2, 3})));
}

TEST(EmbedSentences, NormalisesWhereTheModelSaysSo) {
  LoadedModel model = toy_model();
  const std::vector<std::string> sentences{"the cat", "on"};
  const auto plain = embed_sentences(model, sentences);
  model.sentence.normalize = true;
  const auto got = embed_sentences(model, sentences);
  for (Index n = 0; n < 2; ++n) {
    double square = 0;
    for (Index d = 0; d < 12; ++d) square += std::pow(plain.vectors(n, d), 2);
    for (Index d = 0; d < 12; ++d) EXPECT_NEAR(got.vectors(n, d), plain.vectors(n, d) / std::sqrt(square), 1e-6);
  }
}

TEST(EmbedSentences, TakesTheFirstTokenForClsPooling) {
  LoadedModel model = toy_model();
  model.sentence.pooling = Pooling::kCls;
  const std::vector<std::string> sentences{"the cat", "sat on the mat"};
  const auto got = embed_sentences(model, sentences);
  const auto hidden = hidden_states(model, model.tokenizer.encode("the cat").ids);
  for (Index d = 0; d < 12; ++d) EXPECT_NEAR(got.vectors(0, d), hidden(0, 0, d), 2e-6);
}

TEST(EmbedSentences, TakesTheLargestOverRealTokensForMaxPooling) {
  LoadedModel model = toy_model();
  model.sentence.pooling = Pooling::kMax;
  const std::vector<std::string> sentences{"the cat", "sat on the mat sat on the mat"};
  const auto got = embed_sentences(model, sentences);
  const auto hidden = hidden_states(model, model.tokenizer.encode("the cat").ids);
  for (Index d = 0; d < 12; ++d) {
    float largest = hidden(0, 0, d);
    for (Index i = 1; i < hidden.shape(1); ++i) largest = std::max(largest, hidden(0, i, d));
    EXPECT_NEAR(got.vectors(0, d), largest, 2e-6);
  }
}

TEST(EmbedSentences, CutsLongSentencesKeepsTheirEndMarkAndSaysWhich) {
  LoadedModel model = toy_model();
  model.sentence.max_tokens = 5;
  const std::vector<std::string> sentences{"the cat sat on the mat", "the cat sat", "on the mat the cat"};
  const auto got = embed_sentences(model, sentences);
  EXPECT_EQ(got.truncated, (std::vector<Index>{0, 2}));
  expect_row(got.vectors, 0, mean_of(hidden_states(model, {2, 5, 6, 7, 3})));
  expect_row(got.vectors, 1, mean_of(hidden_states(model, {2, 5, 6, 7, 3})));
  expect_row(got.vectors, 2, mean_of(hidden_states(model, {2, 9, 5, 8, 3})));
}

TEST(EmbedSentences, KeepsTheOrderOfManySentences) {
  const LoadedModel model = toy_model();
  const std::vector<std::string> words{"the", "cat", "sat", "mat", "on", "."};
  Random random(1);
  std::vector<std::string> sentences;
  for (int n = 0; n < 700; ++n) {  // more tokens than one run of the model takes
    std::string sentence;
    for (Index length = random.below(14); length > 0; --length) sentence += words[random.below(6)] + " ";
    sentences.push_back(sentence);
  }
  const auto got = embed_sentences(model, sentences);
  for (Index n = 0; n < 700; n += 23)
    expect_row(got.vectors, n,
               mean_of(hidden_states(model, model.tokenizer.encode(sentences[static_cast<std::size_t>(n)]).ids)));
}

TEST(EmbedSentences, AcceptsNoSentences) {
  EXPECT_EQ(embed_sentences(toy_model(), {}).vectors.shape(), (Shape<2>{0, 12}));
}

TEST(EmbedSentences, NamesTheSentenceThatIsNotUtf8) {
  const std::vector<std::string> sentences{"the", "\xff"};
  EXPECT_THAT(invalid([&] { embed_sentences(toy_model(), sentences); }), holds("sentence 1", "0xFF"));
}

}  // namespace
}  // namespace qkv::test
