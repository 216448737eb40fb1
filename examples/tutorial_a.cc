// Tutorial A: self-attention without an output projection, SelfAttention(num_heads, input_size, hidden_size).
//
// Three linear layers with bias read the same input. Their results are split into heads, each head attends for itself,
// and the heads are laid side by side again. An embedding in front turns words into vectors.

#include <vector>

#include "examples/show.h"
#include "qkv/attention/attention.h"
#include "qkv/nn/embedding.h"
#include "qkv/nn/init.h"
#include "qkv/nn/mha_names.h"

using qkv::Index;

int main() {
  constexpr Index kBatch = 32, kLen = 20, kInputSize = 10, kHiddenSize = 20, kNumHeads = 2, kVocabSize = 50;
  example::Claims claims;

  // The layer, with the random weights that PyTorch's nn.Linear would start with. Training would change them.
  qkv::RandomStream random(7);
  const qkv::MultiHeadAttention layer = qkv::make_multi_head_attention(
      {.embed_dim = kHiddenSize, .num_heads = kNumHeads, .query_dim = kInputSize, .out_proj = false}, random);

  // Words in, vectors out: the embedding has a row for each word of the vocabulary.
  qkv::Embedding embedding{.weight = qkv::Tensor<float, 2>({kVocabSize, kInputSize})};
  for (Index n = 0; n < embedding.weight.size(); ++n) embedding.weight.data()[n] = 2 * random.uniform() - 1;
  std::vector<std::int32_t> words;
  for (Index n = 0; n < kBatch * kLen; ++n) words.push_back(static_cast<std::int32_t>(n * n % kVocabSize));
  const auto x = forward(embedding, qkv::TensorView<const std::int32_t, 2>(words.data(), {kBatch, kLen}));

  // One call. Self-attention: query, key and value are the same view. (More layers: feed r.out to the next one.)
  const auto r = forward(layer, x, x, x, {.observe = {.attn_weights = true}});
  std::printf("input  %s\noutput %s\n", qkv::to_string<3>(x.shape()).c_str(), qkv::to_string<3>(r.out.shape()).c_str());
  claims.expect("[32, 20, 10] gives [32, 20, 20]", r.out.shape() == qkv::Shape<3>{kBatch, kLen, kHiddenSize});

  // The same by hand. Where the tutorial transposes and makes tensors contiguous, a view changes its strides: splitting
  // [batch, seq, hidden] into [batch, heads, seq, hidden / heads] and merging it again copies nothing.
  constexpr Index kHeadDim = kHiddenSize / kNumHeads;
  const auto q = forward(layer.q_proj, x), k = forward(layer.k_proj, x), v = forward(layer.v_proj, x);
  const auto heads = [](auto view) { return view.split_axis(2, kHeadDim).swap_axes(1, 2); };
  qkv::Tensor<float, 3> merged({kBatch, kLen, kHiddenSize});
  qkv::Workspace workspace;
  attention_into(heads(merged.view()), heads(q.view()), heads(k.view()), heads(v.view()), {}, workspace);
  claims.expect("the layer is its three projections and attention", example::largest_difference(r.out, merged) == 0);

  // Every row of weights is a distribution over the 20 words: between 0 and 1, with the sum 1.
  double sum = 0;
  for (Index j = 0; j < kLen; ++j) sum += r.attn_weights(0, 1, 3, j);
  example::show("where words 0 .. 4 of sentence 0 look, head 1, first 5 words:",
                r.attn_weights.view().select(0, 0).select(0, 1).slice(0, 0, 5).slice(1, 0, 5), 3);
  claims.expect("weights sum to 1", example::is_near(sum, 1));

  // The PyTorch module's state dict has these names; a file of it loads by the same ones (see load_weights.cc).
  const qkv::StateDict state = qkv::state_dict(layer, qkv::MhaNames::kQueryLayer);
  for (const auto& [name, tensor] : state)
    std::printf("%-18s %s\n", name.c_str(), qkv::to_string(tensor.shape).c_str());
  claims.expect("query_layer.weight is hidden_size x input_size",
                state.at("query_layer.weight").shape == std::vector<Index>{kHiddenSize, kInputSize});

  // A hidden size that the heads do not divide is an error that names both numbers.
  try {
    qkv::make_multi_head_attention({.embed_dim = kHiddenSize, .num_heads = 3, .out_proj = false}, random);
    claims.expect("20 is not a multiple of 3", false);
  } catch (const std::invalid_argument& error) {
    std::printf("error: %s\n", error.what());
  }
  return claims.num_wrong();
}
