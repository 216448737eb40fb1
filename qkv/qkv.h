#pragma once

// Everything public of the core, attention and nn components. Files and models: qkv/io/*.h, qkv/models/*.h.

#include "qkv/attention/attention.h"
#include "qkv/core/error.h"
#include "qkv/core/executor.h"
#include "qkv/core/tensor.h"
#include "qkv/core/tensor_view.h"
