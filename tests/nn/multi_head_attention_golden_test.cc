// Our MultiHeadAttention against stored results of PyTorch's nn.MultiheadAttention.

#include "nn/pytorch_layers.h"
#include "qkv/nn/multi_head_attention.h"

namespace qkv::test {
namespace {

constexpr double kTolerance = 4e-6;  // values are of order 1; the stored ones were computed in float64

class MultiHeadAttentionGolden : public ::testing::Test {
 protected:
  // Runs a case of num_heads heads and compares with what PyTorch made of it.
  void expect_golden(const GoldenCase& golden, Index num_heads, const MultiHeadAttentionOptions& options = {}) {
    auto observing = options;
    observing.observe.attn_weights = golden.contains("attn_weights");
    const auto got = forward(golden.attention("", num_heads), golden.tensor<3>("query"), golden.tensor<3>("key"),
                             golden.tensor<3>("value"), observing);
    expect_near(got.out, golden.tensor<3>("out"), kTolerance);
    if (observing.observe.attn_weights) expect_near(got.attn_weights, golden.tensor<4>("attn_weights"), kTolerance);
  }

  GoldenCase golden(const std::string& name) const { return {file_, name}; }

 private:
  SafetensorsFile file_{QKV_TEST_DATA "/multi_head_attention.safetensors"};
};

TEST_F(MultiHeadAttentionGolden, SelfAttentionWithPackedProjections) {
  expect_golden(golden("self"), 3);
}

TEST_F(MultiHeadAttentionGolden, SelfAttentionWithoutBiases) {
  ASSERT_FALSE(golden("self_without_bias").contains("in_proj_bias"));
  expect_golden(golden("self_without_bias"), 3);
}

TEST_F(MultiHeadAttentionGolden, PaddingAsValidLens) {
  const std::vector<Index> valid_lens{5, 2};
  expect_golden(golden("hidden_keys"), 3, {.mask = {.valid_lens = valid_lens}});
}

TEST_F(MultiHeadAttentionGolden, PaddingAsAMaskWhereTrueHides) {
  const auto keep = golden("hidden_keys").mask("key_padding_mask", {2, 1, 1, 7}, MaskMeaning::kHide);
  expect_golden(golden("hidden_keys"), 3, {.mask = {.keep = keep.view()}});
}

TEST_F(MultiHeadAttentionGolden, AMaskOfPairsWhereTrueHides) {
  const auto keep = golden("hidden_pairs").mask("attn_mask", {1, 1, 7, 7}, MaskMeaning::kHide);
  expect_golden(golden("hidden_pairs"), 3, {.mask = {.keep = keep.view()}});
}

TEST_F(MultiHeadAttentionGolden, AMaskOfPairsWhereTrueKeeps) {
  const auto keep = golden("kept_pairs").mask("keep", {1, 1, 7, 7}, MaskMeaning::kKeep);
  expect_golden(golden("kept_pairs"), 3, {.mask = {.keep = keep.view()}});
}

TEST_F(MultiHeadAttentionGolden, AMaskForEachHead) {
  const auto keep = golden("hidden_per_head").mask("attn_mask", {2, 3, 7, 7}, MaskMeaning::kHide);
  expect_golden(golden("hidden_per_head"), 3, {.mask = {.keep = keep.view()}});
}

TEST_F(MultiHeadAttentionGolden, AnAdditiveMask) {
  const auto attn_bias = golden("additive").tensor<4>("attn_mask");
  expect_golden(golden("additive"), 3, {.attn_bias = attn_bias.view()});
}

TEST_F(MultiHeadAttentionGolden, CrossAttention) {
  expect_golden(golden("cross"), 4);
}

TEST_F(MultiHeadAttentionGolden, CrossAttentionWithSeparateProjections) {
  ASSERT_FALSE(golden("cross_separate").contains("in_proj_weight"));
  expect_golden(golden("cross_separate"), 4);
}

}  // namespace
}  // namespace qkv::test
