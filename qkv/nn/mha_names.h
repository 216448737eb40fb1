#pragma once

#include <string>
#include <vector>

#include "qkv/core/tensor_values.h"
#include "qkv/nn/multi_head_attention.h"
#include "qkv/nn/parameters.h"
#include "qkv/nn/state_dict.h"

namespace qkv {

/// Whose names a state dict gives to the parameters of MultiHeadAttention.
///
///                q_proj, k_proj, v_proj                              out_proj
///   kOurs        q_proj, k_proj, v_proj                              out_proj
///   kPytorch     rows of in_proj_weight, in_proj_bias                out_proj
///   kD2l         W_q, W_k, W_v                                       W_o
///   kQueryLayer  query_layer, key_layer, value_layer                 has to be absent
///   kBert        attention.self.query, .key, .value                  attention.output.dense
///
/// each followed by .weight and .bias. kPytorch is nn.MultiheadAttention: where key or value have another width than
/// the query, the three weights are q_proj_weight, k_proj_weight and v_proj_weight. kBert is a block of transformers'
/// BertModel, "encoder.layer.N." as prefix, which holds more than attention (LoadOptions::allow_extra).
enum class MhaNames { kOurs, kPytorch, kD2l, kQueryLayer, kBert };

/// What stands before .weight and .bias of the four projections.
struct ProjectionNames {
  std::string q_proj;    ///< "W_q"
  std::string k_proj;    ///< "W_k"
  std::string v_proj;    ///< "W_v"
  std::string out_proj;  ///< Empty: there is none.
};

/// The names of one kind. Errors: std::invalid_argument for kPytorch, whose names are not made so.
ProjectionNames projection_names(MhaNames names);

/// The parameters of a layer under those names.
/// Errors: std::invalid_argument if they cannot hold the layer: additive scoring or kSplitThenProject, but for kOurs;
///   kQueryLayer with an out_proj; kPytorch without one, where query, heads and result are not all of one width, or
///   with a bias in some projections only.
/// @{
std::vector<Parameter<float>> parameters(MultiHeadAttention& layer, MhaNames names, const std::string& prefix = "");
std::vector<Parameter<const float>> parameters(const MultiHeadAttention& layer, MhaNames names,
                                               const std::string& prefix = "");
/// @}

/// As load_state_dict() and state_dict() of any layer, under those names. A round trip changes no bit.
/// @{
void load_state_dict(MultiHeadAttention& layer, MhaNames names, const StateDict& state,
                     const LoadOptions& options = {});
StateDict state_dict(const MultiHeadAttention& layer, MhaNames names, const std::string& prefix = "");
/// @}

}  // namespace qkv
