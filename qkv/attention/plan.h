#pragma once

#include <cstddef>
#include <new>
#include <string_view>

#include "qkv/attention/options.h"
#include "qkv/core/aligned_buffer.h"
#include "qkv/core/tensor_view.h"

namespace qkv {

/// What a call will do, known before it runs. A function of shapes, options and the SIMD target; workspace_bytes also of the number of
/// the executor's workers.
struct AttentionPlan {
  std::string_view kernel;    ///< "fused" (the only kernel so far)
  std::string_view target;    ///< SIMD target, by the names of kernels/target.h: "avx2"
  std::string_view reason;    ///< why this kernel, in words
  Index num_tasks = 0;        ///< independent pieces that the executor may run at once
  Index workspace_bytes = 0;  ///< scratch of all workers together
};

/// The plan of a call on tensors of these shapes, [batch, heads, len, dim] as for attention(), whose elements are of type T: for doubles
/// plan<double>(...), or options of doubles.
/// Errors: std::invalid_argument where attention() would throw it, strides apart.
template <class T = float>
AttentionPlan plan(const Shape<4>& q_shape, const Shape<4>& k_shape, const Shape<4>& v_shape,
                   const BasicAttentionOptions<T>& options = {});

/// Scratch memory that calls may share, one call at a time. Grows to the largest call it has served, never shrinks.
class Workspace {
 public:
  /// At least `size` elements, aligned. Contents are whatever the last call left.
  /// Errors: std::bad_alloc.
  template <class T>
  T* reserve(Index size) {
    const auto bytes = checked_multiply(size, sizeof(T));
    if (!bytes) throw std::bad_alloc();
    if (*bytes > buffer_.size()) buffer_ = AlignedBuffer<std::byte>(*bytes);
    return reinterpret_cast<T*>(buffer_.data());
  }

 private:
  AlignedBuffer<std::byte> buffer_;
};

}  // namespace qkv
