// Our TransformerBlock against stored results of PyTorch's nn.TransformerEncoderLayer.

#include "nn/pytorch_layers.h"

namespace qkv::test {
namespace {

// Runs a case and compares every row, those of padding included.
void expect_golden(const std::string& name, NormPlacement placement, Activation activation) {
  const SafetensorsFile file(QKV_TEST_DATA "/transformer_block.safetensors");
  const GoldenCase golden(file, name);
  const TransformerBlock block{.attention = golden.attention("self_attn.", 3),
                               .attention_norm = golden.norm("norm1"),
                               .feed_forward = {.up_proj = golden.linear("linear1"),
                                                .down_proj = golden.linear("linear2"),
                                                .activation = activation},
                               .feed_forward_norm = golden.norm("norm2"),
                               .norm_placement = placement};
  const std::vector<Index> valid_lens{6, 4};
  const auto got = forward(block, golden.tensor<3>("x"), {.mask = {.valid_lens = valid_lens}});
  expect_near(got.out, golden.tensor<3>("out"), 1e-5);
}

TEST(TransformerBlockGolden, PostNormWithGelu) {
  expect_golden("post_gelu", NormPlacement::kPost, Activation::kGeluErf);
}

TEST(TransformerBlockGolden, PostNormWithRelu) {
  expect_golden("post_relu", NormPlacement::kPost, Activation::kRelu);
}

TEST(TransformerBlockGolden, PreNormWithGelu) {
  expect_golden("pre_gelu", NormPlacement::kPre, Activation::kGeluErf);
}

TEST(TransformerBlockGolden, PreNormWithRelu) {
  expect_golden("pre_relu", NormPlacement::kPre, Activation::kRelu);
}

}  // namespace
}  // namespace qkv::test
