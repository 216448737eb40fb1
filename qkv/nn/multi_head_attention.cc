#include "qkv/nn/multi_head_attention.h"

#include <string>

#include "qkv/attention/attention.h"

namespace qkv {

namespace {

constexpr const char* kFunction = "multi_head_attention";

// Width of one head of a projection; its output must split evenly.
Index head_width(const char* name, const Linear& projection, const char* heads_name, Index num_heads) {
  check(num_heads >= 1, kFunction, heads_name, num_heads, ">= 1");
  const Index width = projection.out_dim();
  check(width >= 1 && width % num_heads == 0, kFunction, std::string(name) + ".weight.shape[0]", width,
        std::string("a multiple of ") + heads_name + " = " + std::to_string(num_heads));
  return width / num_heads;
}

struct HeadWidths {
  Index num_kv_heads, head_dim, k_head_dim, v_head_dim;
};

HeadWidths check_layer(const MultiHeadAttention& layer) {
  HeadWidths widths{};
  widths.num_kv_heads = layer.num_kv_heads.value_or(layer.num_heads);
  widths.head_dim = head_width("q_proj", layer.q_proj, "num_heads", layer.num_heads);
  widths.k_head_dim = head_width("k_proj", layer.k_proj, "num_kv_heads", widths.num_kv_heads);
  widths.v_head_dim = head_width("v_proj", layer.v_proj, "num_kv_heads", widths.num_kv_heads);
  if (!std::holds_alternative<AdditiveWeights>(layer.scoring))  // whose w_k takes keys of any width
    check(widths.k_head_dim == widths.head_dim, kFunction, "head_dim of k_proj", widths.k_head_dim,
          std::to_string(widths.head_dim) + " as of q_proj");
  check(layer.num_heads % widths.num_kv_heads == 0, kFunction, "num_heads", layer.num_heads,
        "a multiple of num_kv_heads = " + std::to_string(widths.num_kv_heads));
  if (layer.out_proj)
    check(layer.out_proj->in_dim() == layer.num_heads * widths.v_head_dim, kFunction, "out_proj.weight.shape[1]",
          layer.out_proj->in_dim(), std::to_string(layer.num_heads * widths.v_head_dim) + " = num_heads * v_head_dim");
  check(layer.dropout >= 0 && layer.dropout <= 1, kFunction, "dropout", layer.dropout, "a probability, 0 to 1");
  return widths;
}

void check_width(const char* name, Index width, const char* projection_name, const Linear& projection,
                 Index num_slices) {
  check(width == num_slices * projection.in_dim(), kFunction, std::string(name) + ".shape[2] (width)", width,
        std::to_string(num_slices * projection.in_dim()) + " as in " + projection_name +
            (num_slices == 1 ? "" : ", " + std::to_string(num_slices) + " slices of its in_dim"));
}

void check_inputs(const MultiHeadAttention& layer, Index num_kv_heads, CView<3> query, CView<3> key, CView<3> value) {
  const bool splits_first = layer.head_split == HeadSplit::kSplitThenProject;
  const Index q_slices = splits_first ? layer.num_heads : 1, kv_slices = splits_first ? num_kv_heads : 1;
  check_width("query", query.shape(2), "q_proj", layer.q_proj, q_slices);
  check_width("key", key.shape(2), "k_proj", layer.k_proj, kv_slices);
  check_width("value", value.shape(2), "v_proj", layer.v_proj, kv_slices);
  const std::string batch = std::to_string(query.shape(0)) + " as in query";
  check(key.shape(0) == query.shape(0), kFunction, "key.shape[0] (batch)", key.shape(0), batch);
  check(value.shape(0) == query.shape(0), kFunction, "value.shape[0] (batch)", value.shape(0), batch);
  check(value.shape(1) == key.shape(1), kFunction, "value.shape[1] (kv_len)", value.shape(1),
        std::to_string(key.shape(1)) + " as in key");
}

Scoring view_of(const LayerScoring& scoring) {
  if (const auto* additive = std::get_if<AdditiveWeights>(&scoring))
    return AdditiveScoring{additive->w_q.view(), additive->w_k.view(), additive->w_v.view()};
  if (std::holds_alternative<CosineScoring>(scoring)) return CosineScoring{};
  return DotScoring{};
}

// Layers drop in training only.
std::optional<Dropout> dropout_of(const MultiHeadAttention& layer, const Run& run) {
  if (!run.training) return std::nullopt;
  return Dropout{.p = layer.dropout, .seed = run.seed};
}

// [batch, len, width] -> [batch, len, num_heads * dim], which is where the two readings of "split into heads" differ.
Tensor<float, 3> project(const Linear& projection, HeadSplit split, Index num_heads, CView<3> x, const Run& run) {
  if (split == HeadSplit::kProjectThenSplit) return forward(projection, x, run);
  Tensor<float, 3> out({x.shape(0), x.shape(1), projection.out_dim()});
  const Index dim = projection.out_dim() / num_heads, slice = projection.in_dim();
  for (Index h = 0; h < num_heads; ++h)
    linear_into(projection.view().outputs(h * dim, (h + 1) * dim), out.view().slice(2, h * dim, (h + 1) * dim),
                x.slice(2, h * slice, (h + 1) * slice), Activation::kNone, run);
  return out;
}

// [batch, len, heads * dim] -> [batch, heads, len, dim]
template <class T>
TensorView<T, 4> split_heads(TensorView<T, 3> x, Index dim) {
  return x.split_axis(2, dim).swap_axes(1, 2);
}

}  // namespace

MultiHeadAttentionResult forward(const MultiHeadAttention& layer, CView<3> query, CView<3> key, CView<3> value,
                                 const MultiHeadAttentionOptions& options, const Run& run) {
  const HeadWidths widths = check_layer(layer);
  check_inputs(layer, widths.num_kv_heads, query, key, value);
  const Index batch = query.shape(0), q_len = query.shape(1), kv_len = key.shape(1);

  const AttentionOptions attention_options{.scoring = view_of(layer.scoring),
                                           .scale = options.scale,
                                           .softcap = options.softcap,
                                           .attn_bias = options.attn_bias,
                                           .mask = options.mask,
                                           .dropout = dropout_of(layer, run),
                                           .observe = options.observe,
                                           .executor = &executor_of(run)};
  plan({batch, layer.num_heads, q_len, widths.head_dim}, {batch, widths.num_kv_heads, kv_len, widths.k_head_dim},
       {batch, widths.num_kv_heads, kv_len, widths.v_head_dim}, attention_options);  // throws before any work

  const Tensor<float, 3> q = project(layer.q_proj, layer.head_split, layer.num_heads, query, run);
  const Tensor<float, 3> k = project(layer.k_proj, layer.head_split, widths.num_kv_heads, key, run);
  const Tensor<float, 3> v = project(layer.v_proj, layer.head_split, widths.num_kv_heads, value, run);

  MultiHeadAttentionResult result;
  Tensor<float, 3> merged({batch, q_len, layer.num_heads * widths.v_head_dim});
  AttentionOutput output(split_heads(merged.view(), widths.v_head_dim));
  const Shape<3> rows{batch, layer.num_heads, q_len};
  if (options.observe.lse) output.lse = result.lse = Tensor<float, 3>(rows);
  if (options.observe.entropy) output.entropy = result.entropy = Tensor<float, 3>(rows);
  if (options.observe.attn_weights)
    output.attn_weights = result.attn_weights = Tensor<float, 4>({batch, layer.num_heads, q_len, kv_len});
  Workspace workspace;
  attention_into(output, split_heads(q.view(), widths.head_dim), split_heads(k.view(), widths.k_head_dim),
                 split_heads(v.view(), widths.v_head_dim), attention_options, workspace);
  result.out = layer.out_proj ? forward(*layer.out_proj, merged, run) : std::move(merged);
  return result;
}

}  // namespace qkv
