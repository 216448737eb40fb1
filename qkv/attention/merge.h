#pragma once

#include <span>

#include "qkv/attention/result.h"

namespace qkv {

/// Attention over all keys, from attention over parts of them: same queries, disjoint keys. The parts may come from other calls, threads or
/// machines, and any of them may be empty of keys.
///
///   out = sum_p e^(lse_p) out_p / sum_p e^(lse_p),   lse = ln sum_p e^(lse_p)
///
/// Shapes: every part the same out [batch, num_heads, q_len, v_head_dim] and lse [batch, num_heads, q_len]; returned are these two.
/// Edge: a part whose lse is -inf saw no key and adds nothing; a row that no part saw gets out = 0, lse = -inf. At most one part may carry
///   a sink. Parts with dropout are not the parts of one call with dropout: each counts its keys from 0. The parts are taken in the order given, sums in double.
/// Errors: std::invalid_argument if there is no part, a part has no lse, or shapes disagree.
/// Cost: one pass over the parts.
/// Source: the merging of partial softmax results, FlashAttention-2, arXiv:2307.08691, 2.3.
/// @{
AttentionResult merge(std::span<const AttentionResult> parts);
BasicAttentionResult<double> merge(std::span<const BasicAttentionResult<double>> parts);
/// @}

}  // namespace qkv
