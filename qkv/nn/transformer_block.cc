#include "qkv/nn/transformer_block.h"

#include <string>

#include "qkv/nn/rows.h"

namespace qkv {

namespace {

// The residual connection adds what comes out to what went in, so both must have the same width.
void check_width(const char* name, Index width, Index embed_dim) {
  check(width == embed_dim, "transformer_block", std::string("embed_dim of ") + name, width,
        std::to_string(embed_dim) + " as in x");
}

void check_block(const TransformerBlock& block, Index embed_dim) {
  const auto& attention = block.attention;
  check(attention.out_proj.has_value(), "transformer_block", "attention.out_proj", "none", "a layer");
  check_width("attention", attention.out_proj->out_dim(), embed_dim);
  check_width("attention_norm", block.attention_norm.embed_dim(), embed_dim);
  check_width("feed_forward.up_proj", block.feed_forward.up_proj.in_dim(), embed_dim);
  check_width("feed_forward.down_proj", block.feed_forward.down_proj.out_dim(), embed_dim);
  check_width("feed_forward_norm", block.feed_forward_norm.embed_dim(), embed_dim);
}

// out += x
void add(View<3> out, CView<3> x, const Run& run) {
  for_each_row(out.shape(0), out.shape(1), run, [&](Index b, Index i) {
    float* to = out.data() + b * out.stride(0) + i * out.stride(1);
    const float* from = x.data() + b * x.stride(0) + i * x.stride(1);
    for (Index d = 0; d < out.shape(2); ++d) to[d] += from[d];
  });
}

MultiHeadAttentionResult forward_post(const TransformerBlock& block, CView<3> x,
                                      const MultiHeadAttentionOptions& options, const Run& run) {
  MultiHeadAttentionResult result = forward(block.attention, x, x, x, options, run);
  const Tensor<float, 3> middle = forward_sum(block.attention_norm, result.out, x, run);
  result.out = forward(block.feed_forward, middle, run);
  result.out = forward_sum(block.feed_forward_norm, result.out, middle, run);
  return result;
}

MultiHeadAttentionResult forward_pre(const TransformerBlock& block, CView<3> x,
                                     const MultiHeadAttentionOptions& options, const Run& run) {
  const Tensor<float, 3> normed = forward(block.attention_norm, x, run);
  MultiHeadAttentionResult result = forward(block.attention, normed, normed, normed, options, run);
  add(result.out, x, run);
  const Tensor<float, 3> hidden = forward(block.feed_forward, forward(block.feed_forward_norm, result.out, run), run);
  add(result.out, hidden, run);
  return result;
}

}  // namespace

MultiHeadAttentionResult forward(const TransformerBlock& block, CView<3> x, const MultiHeadAttentionOptions& options,
                                 const Run& run) {
  check_block(block, x.shape(2));
  return block.norm_placement == NormPlacement::kPost ? forward_post(block, x, options, run)
                                                      : forward_pre(block, x, options, run);
}

}  // namespace qkv
