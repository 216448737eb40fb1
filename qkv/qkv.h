#pragma once

// Every public header of the components that are installed.

#include "qkv/attention/attention.h"
#include "qkv/attention/merge.h"
#include "qkv/core/error.h"
#include "qkv/core/executor.h"
#include "qkv/core/in_quotes.h"
#include "qkv/core/random.h"
#include "qkv/core/tensor.h"
#include "qkv/core/tensor_values.h"
#include "qkv/core/tensor_view.h"
#include "qkv/kernels/layer_norm.h"
#include "qkv/kernels/target.h"

#if __has_include("qkv/nn/linear.h")
#include "qkv/nn/embedding.h"
#include "qkv/nn/feed_forward.h"
#include "qkv/nn/init.h"
#include "qkv/nn/linear.h"
#include "qkv/nn/mha_compat.h"
#include "qkv/nn/mha_names.h"
#include "qkv/nn/multi_head_attention.h"
#include "qkv/nn/norm.h"
#include "qkv/nn/parameters.h"
#include "qkv/nn/patches.h"
#include "qkv/nn/positional.h"
#include "qkv/nn/rows.h"
#include "qkv/nn/state_dict.h"
#include "qkv/nn/transformer_block.h"
#endif

#if __has_include("qkv/io/safetensors.h")
#include "qkv/io/npy.h"
#include "qkv/io/safetensors.h"
#include "qkv/io/safetensors_writer.h"
#endif

#if __has_include("qkv/models/load_model.h")
#include "qkv/models/load_model.h"
#include "qkv/models/sentence.h"
#endif

/// Attention for C++: attention itself, the layers around it, files of weights, trained models.
namespace qkv {}
