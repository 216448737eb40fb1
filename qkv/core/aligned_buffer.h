#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "qkv/core/index.h"
#include "qkv/core/memory.h"

namespace qkv {

/// Owned memory for `size()` values of T, uninitialised, from allocate_memory(). Moves, never copies.
template <class T>
class AlignedBuffer {
  static_assert(std::is_trivially_destructible_v<T> && std::is_trivially_copyable_v<T>);

 public:
  /// Empty.
  AlignedBuffer() = default;
  /// Errors: std::bad_alloc, also for a negative size.
  explicit AlignedBuffer(Index size) : memory_(allocate(size)), size_(size) {}
  /// Leaves `other` empty.
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : memory_(std::move(other.memory_)), size_(std::exchange(other.size_, 0)) {}
  /// Leaves `other` empty.
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    memory_ = std::move(other.memory_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  /// The first value; null where there is none.
  /// @{
  T* data() { return static_cast<T*>(memory_.get()); }
  const T* data() const { return static_cast<const T*>(memory_.get()); }
  /// @}
  /// Number of values.
  Index size() const { return size_; }

 private:
  static Memory allocate(Index size) {
    const auto bytes = checked_multiply(size, sizeof(T));
    if (!bytes || *bytes < 0) throw std::bad_alloc();
    if (*bytes == 0) return nullptr;
    return allocate_memory(static_cast<std::size_t>(*bytes));
  }

  Memory memory_;
  Index size_ = 0;
};

}  // namespace qkv
