// Tutorial B: self-attention with one head and with several, the two readings of "split into heads", and pictures.
//
// The tutorial shows no code for its two classes; one struct serves for both. `qkv lesson` measures its claims: why
// scores are divided by sqrt(d_k), and how several heads spread the look.

#include "examples/show.h"
#include "qkv/nn/init.h"
#include "qkv/nn/patches.h"
#include "qkv/nn/positional.h"

using qkv::Index;

constexpr Index kModel = 12, kNumHeads = 3, kSlice = kModel / kNumHeads;

Index num_weights(const qkv::MultiHeadAttention& layer) {
  return layer.q_proj.weight.size() + layer.k_proj.weight.size() + layer.v_proj.weight.size();
}

// The mean weight that a position gives to itself.
double diagonal_mass(qkv::CView<4> attn_weights, Index head) {
  double sum = 0;
  for (Index i = 0; i < attn_weights.shape(2); ++i) sum += attn_weights(0, head, i, i);
  return sum / static_cast<double>(attn_weights.shape(2));
}

// A square in the upper left corner of a dark picture: [batch, height, width, channels].
qkv::Tensor<float, 4> small_picture() {
  qkv::Tensor<float, 4> picture({1, 8, 12, 1}, 0);
  for (Index y = 1; y < 6; ++y)
    for (Index x = 1; x < 6; ++x) picture(0, y, x, 0) = 1;
  return picture;
}

int main() {
  example::Claims claims;
  qkv::RandomStream random(3);

  // Any sequence will do: words, audio frames, or here the patches of a picture. 8 x 12 pixels are 6 patches of 4 x 4;
  // a linear layer makes a vector of each, and positions say where it was.
  const auto patches = cut_patches(small_picture(), 4);
  const qkv::Linear embedding = qkv::make_linear({.in_dim = 16, .out_dim = kModel}, random);
  const auto x = forward(qkv::sinusoidal_positions(6, kModel), forward(embedding, patches));
  std::printf("picture of 8 x 12 -> patches %s -> vectors %s\n", qkv::to_string<3>(patches.shape()).c_str(),
              qkv::to_string<3>(x.shape()).c_str());
  claims.expect("6 patches of 16 pixels", patches.shape() == qkv::Shape<3>{1, 6, 16});
  claims.expect("the patch in the upper left corner holds 9 bright pixels, the one below it 6", [&] {
    double first = 0, fourth = 0;
    for (Index p = 0; p < 16; ++p) first += patches(0, 0, p), fourth += patches(0, 3, p);
    return first == 9 && fourth == 6;
  }());

  // Self-attention: one head, as wide as the model.
  const auto one = qkv::make_multi_head_attention({.embed_dim = kModel, .num_heads = 1}, random);
  const auto one_result = forward(one, x, x, x, {.observe = {.attn_weights = true}});
  example::show("one head: where each patch looks", one_result.attn_weights.view().select(0, 0).select(0, 0));

  // Multi-head self-attention, "project, then split" (the usual reading): the projections see the whole vector, the
  // heads share out what comes out, and a final linear layer mixes them.
  const auto whole = qkv::make_multi_head_attention({.embed_dim = kModel, .num_heads = kNumHeads}, random);
  const auto whole_result = forward(whole, x, x, x, {.observe = {.attn_weights = true}});

  // "Split the input, then project each slice": head h sees only numbers 4 h .. 4 h + 3 of each vector, through 4 x 4
  // matrices of its own. A third of the weights, and no head knows the whole vector.
  const auto square = [&] { return qkv::make_linear({.in_dim = kSlice, .out_dim = kModel}, random); };
  const qkv::MultiHeadAttention slices{.q_proj = square(),
                                       .k_proj = square(),
                                       .v_proj = square(),
                                       .out_proj = qkv::make_linear({.in_dim = kModel, .out_dim = kModel}, random),
                                       .num_heads = kNumHeads,
                                       .head_split = qkv::HeadSplit::kSplitThenProject};
  const auto slices_result = forward(slices, x, x, x, {.observe = {.attn_weights = true}});

  std::printf("weights of the projections: project, then split %td; split, then project %td\n", num_weights(whole),
              num_weights(slices));
  claims.expect("every reading keeps the shape",
                whole_result.out.shape() == x.shape() && slices_result.out.shape() == x.shape());
  claims.expect("split, then project has 1 / heads of the weights",
                num_weights(whole) == kNumHeads * num_weights(slices));
  for (Index h = 0; h < kNumHeads; ++h)
    std::printf("head %td looks at its own patch with %.2f (project, then split), %.2f (split, then project)\n", h,
                diagonal_mass(whole_result.attn_weights, h), diagonal_mass(slices_result.attn_weights, h));

  // The difference seen: with another number in slice 0, only head 0 of the second reading looks elsewhere.
  auto changed = x.copy();
  changed(0, 2, 1) += 1;
  const auto moved = forward(slices, changed, changed, changed, {.observe = {.attn_weights = true}});
  for (Index h = 0; h < kNumHeads; ++h) {
    const bool differs = moved.attn_weights(0, h, 2, 0) != slices_result.attn_weights(0, h, 2, 0);
    claims.expect("a head sees its own slice only", differs == (h == 0));
  }
  return claims.num_wrong();
}
