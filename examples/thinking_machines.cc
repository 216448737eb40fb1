// "Thinking Machines": self-attention of two words, every matrix on the way printed (tutorial C).
//
// The well-known drawing of this example gives the scores 112 and 96 for "Thinking", divides them by 8 because its keys
// are 64 wide, gets 14 and 12, and after softmax 0.88 and 0.12. The matrices here are small, 3 wide, and made to give
// exactly these numbers; so the scale, 1/8, is given instead of following from the width.

#include <initializer_list>

#include "examples/show.h"
#include "qkv/nn/multi_head_attention.h"

using qkv::Index;

qkv::Tensor<float, 2> matrix(Index rows, Index columns, std::initializer_list<float> numbers) {
  qkv::Tensor<float, 2> result({rows, columns});
  std::copy(numbers.begin(), numbers.end(), result.data());
  return result;
}

int main() {
  example::Claims claims;
  const auto x = matrix(2, 4,
                        {1, 0, 1, 0,    // Thinking
                         0, 1, 0, 1});  // Machines
  // Learned, in a real model. nn.Linear's layout: one row for each number that comes out.
  const qkv::MultiHeadAttention layer{.q_proj = {.weight = matrix(3, 4,
                                                                  {5, 6, 3, 2,   //
                                                                   1, -1, 3, 1,  //
                                                                   3, 2, 1, 2})},
                                      .k_proj = {.weight = matrix(3, 4,
                                                                  {4, 7, 4, 3,   //
                                                                   6, 1, 2, -1,  //
                                                                   1, 1, 3, 3})},
                                      .v_proj = {.weight = matrix(3, 4,
                                                                  {1, 0, 0, 3,  //
                                                                   2, 1, 0, 0,  //
                                                                   0, 2, 1, 2})}};
  example::show("X, a row for each word", x, 0);
  example::show("W_q", layer.q_proj.weight, 0);
  example::show("W_k", layer.k_proj.weight, 0);
  example::show("W_v", layer.v_proj.weight, 0);

  // 1. A query, a key and a value for each word.
  const auto q = forward(layer.q_proj, x.view()), k = forward(layer.k_proj, x.view()),
             v = forward(layer.v_proj, x.view());
  example::show("Q = X W_q^T", q.view().select(0, 0), 0);
  example::show("K = X W_k^T", k.view().select(0, 0), 0);
  example::show("V = X W_v^T", v.view().select(0, 0), 0);

  // 2. and 3. Scores, and scores divided by 8. qkv never stores them; they are written out here to be seen.
  qkv::Tensor<float, 2> scores({2, 2}, 0), scaled({2, 2});
  for (Index i = 0; i < 2; ++i)
    for (Index j = 0; j < 2; ++j) {
      for (Index d = 0; d < 3; ++d) scores(i, j) += q(0, i, d) * k(0, j, d);
      scaled(i, j) = scores(i, j) / 8;
    }
  example::show("scores Q K^T", scores, 0);
  example::show("scores / 8", scaled, 0);
  claims.expect("the scores of Thinking are 112 and 96", scores(0, 0) == 112 && scores(0, 1) == 96);
  claims.expect("divided by 8 they are 14 and 12", scaled(0, 0) == 14 && scaled(0, 1) == 12);

  // 4. to 6. Softmax of each row, values times weights, and their sum: the layer does all six steps in one call.
  const auto r = forward(layer, x.view(), x.view(), x.view(), {.scale = 1.0 / 8, .observe = {.attn_weights = true}});
  const auto weights = r.attn_weights.view().select(0, 0).select(0, 0);
  example::show("weights: softmax of each row", weights);
  example::show("Z = weights V", r.out.view().select(0, 0));
  claims.expect("Thinking looks at itself with 0.88 and at Machines with 0.12",
                example::is_near(weights(0, 0), 0.88, 0.005) && example::is_near(weights(0, 1), 0.12, 0.005));
  for (Index d = 0; d < 3; ++d)
    claims.expect("Z is the weighted sum of the values",
                  example::is_near(r.out(0, 0, d), weights(0, 0) * v(0, 0, d) + weights(0, 1) * v(0, 1, d)));
  return claims.num_wrong();
}
