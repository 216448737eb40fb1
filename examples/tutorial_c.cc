// Tutorial C: attention in general. Scoring functions, self- and cross-attention, and the layer of d2l.
//
// attention(query, key, value): compare the query with every key, make weights of the scores, and take the weighted
// mean of the values. "Thinking Machines", the worked example of two words, is thinking_machines.cc.

#include <vector>

#include "examples/show.h"
#include "qkv/attention/attention.h"
#include "qkv/nn/init.h"
#include "qkv/nn/mha_names.h"

using qkv::Index;

qkv::Tensor<float, 2> random_matrix(Index rows, Index columns, qkv::RandomStream& random) {
  qkv::Tensor<float, 2> result({rows, columns});
  for (Index n = 0; n < result.size(); ++n) result.data()[n] = 4 * random.uniform() - 2;
  return result;
}

// Weights are between 0 and 1, and those of a query sum to 1.
bool is_distribution(qkv::CView<4> weights) {
  for (Index h = 0; h < weights.shape(1); ++h)
    for (Index i = 0; i < weights.shape(2); ++i) {
      double sum = 0;
      for (Index j = 0; j < weights.shape(3); ++j) {
        if (weights(0, h, i, j) < 0 || weights(0, h, i, j) > 1) return false;
        sum += weights(0, h, i, j);
      }
      if (!example::is_near(sum, 1)) return false;
    }
  return true;
}

// The four scoring functions on the same two queries and five keys of 8 numbers.
void compare_scorings(example::Claims& claims) {
  qkv::RandomStream random(5);
  const auto q = random_matrix(2, 8, random), k = random_matrix(5, 8, random), v = random_matrix(5, 3, random);
  // Additive: a small network with 6 hidden units, w_v . tanh(w_q q + w_k k). The score of each pair is computed on
  // the way; no tensor of queries x keys x hidden units ever exists.
  const auto w_q = random_matrix(6, 8, random), w_k = random_matrix(6, 8, random), w_v = random_matrix(1, 6, random);
  const qkv::AdditiveScoring additive{w_q.view(), w_k.view(), w_v.view().select(0, 0)};
  const qkv::Observe weights{.attn_weights = true};

  const struct {
    const char* name;
    qkv::AttentionOptions options;
  } scorings[] = {
      {"dot product", {.scale = 1.0, .observe = weights}},
      {"scaled dot product (divided by sqrt(8))", {.observe = weights}},
      {"cosine", {.scoring = qkv::CosineScoring{}, .observe = weights}},
      {"additive", {.scoring = additive, .observe = weights}},
      // The tutorial divides every score by sqrt(d), these too.
      {"additive, divided by sqrt(8)", {.scoring = additive, .scale = 1 / std::sqrt(8.0), .observe = weights}}};
  for (const auto& [name, options] : scorings) {
    const auto r = qkv::attention(q.view(), k.view(), v.view(), options);
    example::show(name, r.attn_weights.view().select(0, 0).select(0, 0));
    claims.expect("weights are distributions", is_distribution(r.attn_weights));
  }
}

// d2l's layer and its example: 5 heads, 100 hiddens, no biases; of the 6 keys only 3 and 2 are real.
void run_d2l_layer(example::Claims& claims) {
  constexpr Index kNumHiddens = 100, kNumHeads = 5;
  qkv::RandomStream random(6);
  auto layer =
      qkv::make_multi_head_attention({.embed_dim = kNumHiddens, .num_heads = kNumHeads, .bias = false}, random);
  layer.dropout = 0.5;  // of the weights; in training only, so evaluation gives the same numbers every time
  const std::vector<Index> valid_lens{3, 2};

  // Cross-attention: queries from one sequence (a decoder's), keys and values from another (an encoder's).
  const qkv::Tensor<float, 3> queries({2, 4, kNumHiddens}, 1), keys({2, 6, kNumHiddens}, 1);
  const qkv::MultiHeadAttentionOptions options{.mask = {.valid_lens = valid_lens}, .observe = {.attn_weights = true}};
  const auto cross = forward(layer, queries, keys, keys, options);
  std::printf("queries %s, keys %s -> %s\n", qkv::to_string<3>(queries.shape()).c_str(),
              qkv::to_string<3>(keys.shape()).c_str(), qkv::to_string<3>(cross.out.shape()).c_str());
  claims.expect("[2, 4, 100] comes out", cross.out.shape() == qkv::Shape<3>{2, 4, kNumHiddens});
  example::show("weights of sequence 1, head 0: two real keys, equal ones",
                cross.attn_weights.view().select(0, 1).select(0, 0));
  claims.expect("only real keys have weight",
                cross.attn_weights(1, 0, 0, 1) == 0.5f && cross.attn_weights(1, 0, 0, 2) == 0);

  // Self-attention: one source. Layers stack: the first reads word embeddings, the next what the one below gives.
  const auto second = qkv::make_multi_head_attention({.embed_dim = kNumHiddens, .num_heads = kNumHeads}, random);
  const auto below = forward(layer, queries, queries, queries).out;
  const auto above = forward(second, below, below, below).out;
  claims.expect("layers stack", above.shape() == queries.shape());

  // The parameters have d2l's names in a state dict, so weights trained there load here (load_weights.cc).
  for (const auto& [name, tensor] : qkv::state_dict(layer, qkv::MhaNames::kD2l))
    std::printf("%s %s\n", name.c_str(), qkv::to_string(tensor.shape).c_str());
}

int main() {
  example::Claims claims;
  compare_scorings(claims);
  run_d2l_layer(claims);
  return claims.num_wrong();
}
