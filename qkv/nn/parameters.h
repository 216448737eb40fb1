#pragma once

#include <concepts>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "qkv/nn/embedding.h"
#include "qkv/nn/feed_forward.h"
#include "qkv/nn/linear.h"
#include "qkv/nn/multi_head_attention.h"
#include "qkv/nn/norm.h"
#include "qkv/nn/positional.h"
#include "qkv/nn/transformer_block.h"

namespace qkv {

/// A layer of one kind, const or not.
template <class Type, class Layer>
concept IsLayer = std::same_as<std::remove_const_t<Type>, Layer>;

/// Calls visit(name, tensor) for every learned tensor of a layer, always in the same order. The name is that of the
/// struct's fields, joined by dots: "bias", "q_proj.weight", "feed_forward.up_proj.weight"; `prefix` stands before it.
/// This is the one list of a layer's parameters: whatever reads or writes all of them goes through it.
template <IsLayer<Linear> Layer, class Visit>
void for_each_parameter(Layer& layer, const Visit& visit, const std::string& prefix = "") {
  visit(prefix + "weight", layer.weight);
  if (layer.bias) visit(prefix + "bias", *layer.bias);
}

template <IsLayer<Embedding> Layer, class Visit>
void for_each_parameter(Layer& layer, const Visit& visit, const std::string& prefix = "") {
  visit(prefix + "weight", layer.weight);
}

template <IsLayer<PositionalEncoding> Layer, class Visit>
void for_each_parameter(Layer& layer, const Visit& visit, const std::string& prefix = "") {
  if (layer.learned) visit(prefix + "weight", layer.weight);
}

template <IsLayer<LayerNorm> Layer, class Visit>
void for_each_parameter(Layer& layer, const Visit& visit, const std::string& prefix = "") {
  visit(prefix + "weight", layer.weight);
  if (layer.bias) visit(prefix + "bias", *layer.bias);
}

template <IsLayer<FeedForward> Layer, class Visit>
void for_each_parameter(Layer& layer, const Visit& visit, const std::string& prefix = "") {
  for_each_parameter(layer.up_proj, visit, prefix + "up_proj.");
  for_each_parameter(layer.down_proj, visit, prefix + "down_proj.");
}

template <IsLayer<MultiHeadAttention> Layer, class Visit>
void for_each_parameter(Layer& layer, const Visit& visit, const std::string& prefix = "") {
  for_each_parameter(layer.q_proj, visit, prefix + "q_proj.");
  for_each_parameter(layer.k_proj, visit, prefix + "k_proj.");
  for_each_parameter(layer.v_proj, visit, prefix + "v_proj.");
  if (layer.out_proj) for_each_parameter(*layer.out_proj, visit, prefix + "out_proj.");
  if (auto* additive = std::get_if<AdditiveWeights>(&layer.scoring)) {
    visit(prefix + "scoring.w_q", additive->w_q);
    visit(prefix + "scoring.w_k", additive->w_k);
    visit(prefix + "scoring.w_v", additive->w_v);
  }
}

template <IsLayer<TransformerBlock> Layer, class Visit>
void for_each_parameter(Layer& layer, const Visit& visit, const std::string& prefix = "") {
  for_each_parameter(layer.attention, visit, prefix + "attention.");
  for_each_parameter(layer.attention_norm, visit, prefix + "attention_norm.");
  for_each_parameter(layer.feed_forward, visit, prefix + "feed_forward.");
  for_each_parameter(layer.feed_forward_norm, visit, prefix + "feed_forward_norm.");
}

/// One learned tensor of a layer, borrowed, and where a state dict keeps it. T is float, or const float of a const
/// layer.
template <class T>
struct Parameter {
  std::string name;          ///< In a state dict.
  std::vector<Index> shape;  ///< The length of every axis.
  T* values;                 ///< Packed, row-major.
  /// The tensor `name` of a state dict is num_parts parameters of this shape, one below the other; this is number
  /// `part`.
  Index part = 0;
  Index num_parts = 1;  ///< See `part`.
};

/// The parameters of a layer as a list, in the order of for_each_parameter().
template <class Layer>
auto parameters(Layer& layer, const std::string& prefix = "") {
  using T = std::conditional_t<std::is_const_v<Layer>, const float, float>;
  std::vector<Parameter<T>> list;
  const auto add = [&list](const std::string& name, auto& tensor) {
    list.push_back({.name = name, .shape = {tensor.shape().begin(), tensor.shape().end()}, .values = tensor.data()});
  };
  for_each_parameter(layer, add, prefix);
  return list;
}

}  // namespace qkv
