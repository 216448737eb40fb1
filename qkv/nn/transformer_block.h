#pragma once

#include "qkv/nn/feed_forward.h"
#include "qkv/nn/multi_head_attention.h"
#include "qkv/nn/norm.h"

namespace qkv {

/// Where a block normalises.
///   kPost (BERT, the original transformer):  x = norm(x + attention(x));  x = norm(x + feed_forward(x))
///   kPre (GPT-2, ViT):                       x = x + attention(norm(x));  x = x + feed_forward(norm(x))
enum class NormPlacement { kPost, kPre };

/// One transformer block: self-attention and feed-forward, each with a residual connection and a layer norm.
struct TransformerBlock {
  MultiHeadAttention attention;                         ///< self-attention
  LayerNorm attention_norm;                             ///< the norm that goes with it
  FeedForward feed_forward;                             ///< of each position for itself
  LayerNorm feed_forward_norm;                          ///< the norm that goes with it
  NormPlacement norm_placement = NormPlacement::kPost;  ///< of both norms
};

/// Applies the block.
/// Shapes: x [batch, len, embed_dim], any strides (last axis: 1). Returns out of the same shape, and the observables of
///   its attention that options ask for.
/// Edge: padding hidden by options.mask.valid_lens is hidden as keys only; its own rows are computed and keep their
///   place, so the shape never depends on the mask.
/// Errors: std::invalid_argument if the parts do not fit together, and as of each part.
/// Threads: runs on run.executor; the bits of the result do not depend on the number of threads.
MultiHeadAttentionResult forward(const TransformerBlock& block, CView<3> x,
                                 const MultiHeadAttentionOptions& options = {}, const Run& run = {});

}  // namespace qkv
