#include "qkv/nn/mha_names.h"

#include <stdexcept>
#include <utility>

#include "qkv/core/check.h"

namespace qkv {

namespace {

constexpr const char* kFunction = "mha_names";

// nn.MultiheadAttention has one width for the query, all heads together and the result, and one switch for all biases.
void check_fits_pytorch(const MultiHeadAttention& layer) {
  check(layer.out_proj.has_value(), kFunction, "out_proj", "none", "one, as nn.MultiheadAttention has");
  const Index out_dim = layer.q_proj.out_dim();
  const bool has_bias = layer.q_proj.bias.has_value();
  check(layer.q_proj.in_dim() == out_dim, kFunction, "q_proj.weight.shape[1]", layer.q_proj.in_dim(),
        std::to_string(out_dim) + " as q_proj.weight.shape[0], for nn.MultiheadAttention");
  const auto check_like_q = [&](const char* name, const Linear& projection) {
    check(projection.out_dim() == out_dim, kFunction, std::string(name) + ".weight.shape[0]", projection.out_dim(),
          std::to_string(out_dim) + " as in q_proj, for nn.MultiheadAttention");
    check(projection.bias.has_value() == has_bias, kFunction, std::string(name) + ".bias",
          projection.bias ? "one" : "none", has_bias ? "one as in q_proj" : "none as in q_proj");
  };
  check_like_q("k_proj", layer.k_proj);
  check_like_q("v_proj", layer.v_proj);
  check_like_q("out_proj", *layer.out_proj);
}

template <class T>
void rename_for_pytorch(const MultiHeadAttention& layer, Parameter<T>& parameter) {
  if (parameter.name.starts_with("out_proj.")) return;
  const auto dot = parameter.name.find('.');
  const std::string projection = parameter.name.substr(0, dot);
  const std::string kind = parameter.name.substr(dot + 1);
  const Index q_width = layer.q_proj.in_dim();
  if (kind == "weight" && (layer.k_proj.in_dim() != q_width || layer.v_proj.in_dim() != q_width)) {
    parameter.name = projection + "_weight";
    return;
  }
  parameter.name = "in_proj_" + kind;
  parameter.part = projection == "q_proj" ? 0 : projection == "k_proj" ? 1 : 2;
  parameter.num_parts = 3;
}

template <class T>
void rename(const ProjectionNames& names, Parameter<T>& parameter) {
  const auto dot = parameter.name.find('.');
  const std::string projection = parameter.name.substr(0, dot);
  if (projection == "scoring") return;
  const std::string& theirs = projection == "q_proj"   ? names.q_proj
                              : projection == "k_proj" ? names.k_proj
                              : projection == "v_proj" ? names.v_proj
                                                       : names.out_proj;
  parameter.name = theirs + parameter.name.substr(dot);
}

template <class Layer>
auto renamed_parameters(Layer& layer, MhaNames names, const std::string& prefix) {
  auto list = parameters(layer);
  check(names == MhaNames::kOurs || !std::holds_alternative<AdditiveWeights>(layer.scoring), kFunction, "scoring",
        "additive", "one without parameters under these names");
  check(names == MhaNames::kOurs || layer.head_split == HeadSplit::kProjectThenSplit, kFunction, "head_split",
        "kSplitThenProject", "kProjectThenSplit under these names");
  if (names == MhaNames::kPytorch) {
    check_fits_pytorch(layer);
    for (auto& parameter : list) rename_for_pytorch(layer, parameter);
  } else {
    const ProjectionNames theirs = projection_names(names);
    check(!layer.out_proj || !theirs.out_proj.empty(), kFunction, "out_proj", "one", "none under these names");
    for (auto& parameter : list) rename(theirs, parameter);
  }
  for (auto& parameter : list) parameter.name = prefix + parameter.name;
  return list;
}

}  // namespace

ProjectionNames projection_names(MhaNames names) {
  switch (names) {
    case MhaNames::kOurs:
      return {"q_proj", "k_proj", "v_proj", "out_proj"};
    case MhaNames::kD2l:
      return {"W_q", "W_k", "W_v", "W_o"};
    case MhaNames::kQueryLayer:
      return {"query_layer", "key_layer", "value_layer", ""};
    case MhaNames::kBert:
      return {"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"};
    case MhaNames::kPytorch:
      break;
  }
  throw_invalid(kFunction, "names", "kPytorch", "names that differ by projection");
}

std::vector<Parameter<float>> parameters(MultiHeadAttention& layer, MhaNames names, const std::string& prefix) {
  return renamed_parameters(layer, names, prefix);
}

std::vector<Parameter<const float>> parameters(const MultiHeadAttention& layer, MhaNames names,
                                               const std::string& prefix) {
  return renamed_parameters(layer, names, prefix);
}

void load_state_dict(MultiHeadAttention& layer, MhaNames names, const StateDict& state, const LoadOptions& options) {
  load_parameters(parameters(layer, names, options.prefix), state, options);
}

StateDict state_dict(const MultiHeadAttention& layer, MhaNames names, const std::string& prefix) {
  return save_parameters(parameters(layer, names, prefix));
}

}  // namespace qkv
