#pragma once

#include <optional>
#include <string>

#include "cli/operands.h"
#include "cli/run_options.h"
#include "qkv/attention/options.h"
#include "qkv/core/tensor_values.h"

namespace qkv::cli {

// What `qkv attend` was asked for, as it was typed.
struct AttendOptions {
  std::string q, k, v;
  std::optional<std::string> out, weights, lse, entropy;  // files to write
  std::string scoring = "dot";
  std::optional<std::string> w_q, w_k, w_v;  // of additive scoring
  std::optional<double> scale, softcap;
  std::optional<std::string> attn_bias, alibi, sinks, keep, q_start, window, valid_lens;
  std::optional<std::string> documents, documents_q, cu_seqlens_q, cu_seqlens_k;
  bool causal = false;
  std::optional<double> dropout;
  std::string seed = "0";
  bool reproducible = false;
  RunOptions run;
};

// A tensor of four axes and how many of them its file has.
struct Operand {
  TensorValues<float> tensor;
  std::size_t rank = 0;

  CView<4> view() const {
    const auto& shape = tensor.shape;
    return {tensor.values.data(), {shape[0], shape[1], shape[2], shape[3]}};
  }
};

Operand load_operand(const std::string& name, std::size_t least_rank);

// Everything that AttentionOptions borrows.
struct Masks {
  std::optional<TensorValues<float>> w_q, w_k, w_v, alibi, sinks;
  std::optional<Operand> attn_bias;
  std::optional<TensorValues<bool>> keep;
  std::optional<TensorValues<Index>> q_start, valid_lens, documents, documents_q, cu_seqlens_q, cu_seqlens_k;
};

// Throws unless the options fit together, before any file is read.
void check_usage(const AttendOptions& options);

Masks load_masks(const AttendOptions& options);

// The options of the call; they borrow from `masks`.
AttentionOptions attention_options(const AttendOptions& options, const Masks& masks);

}  // namespace qkv::cli
