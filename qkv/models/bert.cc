#include "qkv/models/bert.h"

#include <string>
#include <utility>

#include "qkv/core/memory.h"
#include "qkv/nn/rows.h"

namespace qkv {

namespace {

void check_input(const Bert& model, TensorView<const std::int32_t, 2> tokens, const BertOptions& options) {
  check(tokens.shape(1) <= model.config.max_positions, "bert", "tokens.shape[1] (len)", tokens.shape(1),
        "at most " + std::to_string(model.config.max_positions) + " (max_position_embeddings)");
  if (options.token_types)
    check(options.token_types->shape() == tokens.shape(), "bert", "token_types.shape",
          to_string<2>(options.token_types->shape()), to_string<2>(tokens.shape()) + " as of tokens");
}

// Rows of an embedding for the whole batch, where absent types are all 0.
TensorView<const std::int32_t, 2> token_types_of(TensorView<const std::int32_t, 2> tokens, const BertOptions& options) {
  static constexpr std::int32_t kFirstType = 0;
  return options.token_types.value_or(TensorView<const std::int32_t, 2>(&kFirstType, tokens.shape(), {0, 0}));
}

// norm(token + token type + position), the position of a token being its place in the sequence.
Tensor<float, 3> embed(const Bert& model, TensorView<const std::int32_t, 2> tokens, const BertOptions& options,
                       const Run& run) {
  Tensor<float, 3> sum = forward(model.token_embedding, tokens, run);
  const Tensor<float, 3> types = forward(model.token_type_embedding, token_types_of(tokens, options), run);
  const Index len = tokens.shape(1), embed_dim = model.config.embed_dim;
  for_each_row(tokens.shape(0), len, run, [&](Index b, Index i) {
    float* row = sum.data() + (b * len + i) * embed_dim;
    const float* type = types.data() + (b * len + i) * embed_dim;
    for (Index d = 0; d < embed_dim; ++d) row[d] += type[d];
  });
  const CView<3> positions(model.position_embedding.weight.data(), sum.shape(), {0, embed_dim, 1});
  return forward_sum(model.embedding_norm, sum, positions, run);
}

}  // namespace

BertOutput forward(const Bert& model, TensorView<const std::int32_t, 2> tokens, const BertOptions& options,
                   const Run& run) {
  check_input(model, tokens, options);
  const MemoryReuse reuse;
  const MultiHeadAttentionOptions block_options{.mask = {.valid_lens = options.valid_lens},
                                                .observe = {.attn_weights = options.attn_weights}};
  BertOutput output;
  Tensor<float, 3> hidden = embed(model, tokens, options, run);
  for (const TransformerBlock& block : model.blocks) {
    MultiHeadAttentionResult result = forward(block, hidden, block_options, run);
    if (options.hidden_states) output.hidden_states.push_back(std::move(hidden));
    if (options.attn_weights) output.attn_weights.push_back(std::move(result.attn_weights));
    hidden = std::move(result.out);
  }
  output.hidden_states.push_back(std::move(hidden));
  return output;
}

}  // namespace qkv
