#pragma once

#include <span>
#include <string>

#include "qkv/core/tensor_values.h"
#include "qkv/nn/parameters.h"

namespace qkv {

/// How much of a state dict belongs to a layer.
struct LoadOptions {
  /// What stands before every name, its dot included: "encoder.layer.0.". Entries that do not begin with it are not
  /// looked at.
  std::string prefix = "";
  /// Entries that the layer has no place for are left alone; otherwise they are an error.
  bool allow_extra = false;
};

/// Fills a layer from a state dict under our names (parameters.h); foreign names of attention: mha_names.h.
/// The layer has to be there with all its shapes, as init.h makes it; values are copied bit by bit.
/// Errors: one std::invalid_argument that lists everything that does not fit (entries that are missing, have another
///   shape or are extra), before the layer is touched.
template <class Layer>
void load_state_dict(Layer& layer, const StateDict& state, const LoadOptions& options = {});

/// A copy of a layer's parameters under our names, each with `prefix` before it.
template <class Layer>
StateDict state_dict(const Layer& layer, const std::string& prefix = "");

/// The same for a list of parameters, be it of several layers or under other names; they have their prefixes already.
/// @{
void load_parameters(std::span<const Parameter<float>> parameters, const StateDict& state,
                     const LoadOptions& options = {});
StateDict save_parameters(std::span<const Parameter<const float>> parameters);
/// @}

template <class Layer>
void load_state_dict(Layer& layer, const StateDict& state, const LoadOptions& options) {
  load_parameters(parameters(layer, options.prefix), state, options);
}

template <class Layer>
StateDict state_dict(const Layer& layer, const std::string& prefix) {
  return save_parameters(parameters(layer, prefix));
}

}  // namespace qkv
