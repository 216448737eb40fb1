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
  std::optional<std::string> seed;
  bool reproducible = false;
  std::string dtype = "f32";
  RunOptions run;
};

// A tensor of four axes and how many of them its file has.
template <class T>
struct Operand {
  TensorValues<T> tensor;
  std::size_t rank = 0;

  TensorView<const T, 4> view() const {
    const auto& shape = tensor.shape;
    return {tensor.values.data(), {shape[0], shape[1], shape[2], shape[3]}};
  }
};

template <class T>
Operand<T> load_operand(const std::string& name, std::size_t least_rank);

// What BasicAttentionOptions borrows, of files and lists.
template <class T>
struct Borrowed {
  std::optional<TensorValues<T>> w_q, w_k, w_v, alibi, sinks;
  std::optional<Operand<T>> attn_bias;
  std::optional<TensorValues<bool>> keep;
  std::optional<TensorValues<Index>> q_start, valid_lens, documents, documents_q, cu_seqlens_q, cu_seqlens_k;
};

// Throws unless the options fit together, before any file is read.
void check_usage(const AttendOptions& options);

// T, here and below: float or double.
template <class T>
Borrowed<T> load_borrowed(const AttendOptions& options);

// The options of the call; they borrow from `borrowed`.
template <class T>
BasicAttentionOptions<T> attention_options(const AttendOptions& options, const Borrowed<T>& borrowed);

}  // namespace qkv::cli
