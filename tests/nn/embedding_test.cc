#include "qkv/nn/embedding.h"

#include "nn/layer_support.h"

namespace qkv::test {
namespace {

Embedding small_table() {
  return {.weight = tensor_of<2>({3, 2}, {1, 2, 3, 4, 5, 6})};
}

TEST(Embedding, GivesTheRowOfEachToken) {
  const std::vector<std::int32_t> tokens{2, 0, 1, 2};
  const auto out = forward(small_table(), {tokens.data(), {2, 2}});
  EXPECT_EQ(out.shape(), (Shape<3>{2, 2, 2}));
  EXPECT_EQ(values(out), (std::vector<float>{5, 6, 1, 2, 3, 4, 5, 6}));
}

TEST(Embedding, ReadsStridedTokens) {
  const std::vector<std::int32_t> tokens{2, 99, 0, 99};  // every second one counts
  const auto out = forward(small_table(), {tokens.data(), {1, 2}, {4, 2}});
  EXPECT_EQ(values(out), (std::vector<float>{5, 6, 1, 2}));
}

TEST(Embedding, ServesManyTokens) {
  Random random(1);
  const Embedding layer{.weight = random.tensor<2>({50, 7})};
  Tensor<std::int32_t, 2> tokens({3, 111});
  for (Index n = 0; n < tokens.size(); ++n) tokens.data()[n] = static_cast<std::int32_t>(random.below(50));
  const auto out = forward(layer, tokens);
  for (Index b = 0; b < 3; ++b)
    for (Index i = 0; i < 111; ++i)
      for (Index d = 0; d < 7; ++d) ASSERT_EQ(out(b, i, d), layer.weight(tokens(b, i), d));
}

TEST(Embedding, AcceptsNoTokens) {
  EXPECT_EQ(forward(small_table(), Tensor<std::int32_t, 2>({2, 0})).shape(), (Shape<3>{2, 0, 2}));
}

TEST(Embedding, RefusesATokenBeyondTheTable) {
  const std::vector<std::int32_t> tokens{0, 3};
  const auto message = error_of<std::out_of_range>([&] { forward(small_table(), {tokens.data(), {1, 2}}); });
  EXPECT_THAT(message, holds("embedding: token at [0, 1]", "got 3", "vocab_size = 3"));
}

TEST(Embedding, RefusesANegativeToken) {
  const std::vector<std::int32_t> tokens{-1};
  const auto message = error_of<std::out_of_range>([&] { forward(small_table(), {tokens.data(), {1, 1}}); });
  EXPECT_THAT(message, holds("embedding: token at [0, 0]", "got -1", "vocab_size = 3"));
}

}  // namespace
}  // namespace qkv::test
