// Weights of PyTorch's nn.MultiheadAttention, out of a safetensors file, into a qkv layer: with qkv::nn and qkv::io
// alone, no tokeniser, no model.
//
//   load_weights FILE COPY      FILE: with tensors "hidden_keys.in_proj_weight", "hidden_keys.query", ... (of the
//   tests)
//
// In Python such a file is made by: safetensors.torch.save_file(module.state_dict(), "weights.safetensors").

#include <string>

#include "examples/show.h"
#include "qkv/io/safetensors.h"
#include "qkv/io/safetensors_writer.h"
#include "qkv/nn/init.h"
#include "qkv/nn/mha_compat.h"
#include "qkv/nn/mha_names.h"

using qkv::Index;

int main(int argc, char** argv) {
  if (argc != 3) {
    std::printf("usage: load_weights FILE.safetensors COPY.safetensors\n");
    return 2;
  }
  example::Claims claims;
  const qkv::SafetensorsFile file(argv[1]);  // mapped, checked; values are read when asked for
  const std::string prefix = "hidden_keys.";

  // 1. A layer of the right shape. What it starts with does not matter.
  qkv::RandomStream random(0);
  auto layer = qkv::make_multi_head_attention({.embed_dim = 24, .num_heads = 3}, random);

  // 2. Its weights, by PyTorch's names: in_proj_weight holds three matrices one below the other. Missing or misshapen
  // tensors would be one error that lists them all. The file holds more than the layer (inputs and results).
  qkv::load_state_dict(layer, qkv::MhaNames::kPytorch, file.load_state_dict(prefix),
                       {.prefix = prefix, .allow_extra = true});

  // 3. Run it on the stored input, and compare with what PyTorch gave. Its mask says true = ignore, ours true = keep.
  const auto x = file.load<3>(prefix + "query", {2, 7, 24});
  const auto padding = file.load_bool(prefix + "key_padding_mask");
  const auto keep = qkv::keep_from_key_padding_mask({padding.values.data(), {2, 7}});
  const auto r = forward(layer, x, x, x, {.mask = {.keep = keep.view()}, .observe = {.attn_weights = true}});
  const double difference = example::largest_difference(r.out, file.load<3>(prefix + "out", {2, 7, 24}));
  std::printf("%s: largest difference from PyTorch %.1e\n", argv[1], difference);
  claims.expect("the same as PyTorch within 1e-5", difference <= 1e-5);
  example::show("weights averaged over the heads, as PyTorch returns them, sequence 0:",
                qkv::average_heads(r.attn_weights).view().select(0, 0));

  // 4. And back into a file that PyTorch loads with module.load_state_dict(safetensors.torch.load_file(...)).
  qkv::write_safetensors(argv[2], qkv::state_dict(layer, qkv::MhaNames::kPytorch));
  auto again = qkv::make_multi_head_attention({.embed_dim = 24, .num_heads = 3}, random);
  qkv::load_state_dict(again, qkv::MhaNames::kPytorch, qkv::SafetensorsFile(argv[2]).load_state_dict());
  const auto second = forward(again, x, x, x, {.mask = {.keep = keep.view()}});
  claims.expect("the round trip changes no bit", example::largest_difference(r.out, second.out) == 0);
  return claims.num_wrong();
}
