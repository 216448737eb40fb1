#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "qkv/core/index.h"

namespace qkv {

/// Owned memory for `size()` values of T, uninitialised, aligned for any vector instruction. Moves, never copies.
template <class T>
class AlignedBuffer {
  static_assert(std::is_trivially_destructible_v<T> && std::is_trivially_copyable_v<T>);

 public:
  /// One cache line, and the widest vector of any target.
  static constexpr std::size_t kAlignment = 64;

  /// Empty.
  AlignedBuffer() = default;
  /// Errors: std::bad_alloc, also for a negative size.
  explicit AlignedBuffer(Index size) : data_(allocate(size)), size_(size) {}
  /// Leaves `other` empty.
  AlignedBuffer(AlignedBuffer&& other) noexcept : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
  /// Leaves `other` empty.
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  /// The first value; null where there is none.
  /// @{
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  /// @}
  /// Number of values.
  Index size() const { return size_; }

 private:
  struct Free {
    void operator()(T* pointer) const { ::operator delete (pointer, std::align_val_t{kAlignment}); }
  };
  static T* allocate(Index size) {
    const auto bytes = checked_multiply(size, sizeof(T));
    if (!bytes || *bytes < 0) throw std::bad_alloc();
    if (*bytes == 0) return nullptr;
    return static_cast<T*>(::operator new (static_cast<std::size_t>(*bytes), std::align_val_t{kAlignment}));
  }

  std::unique_ptr<T, Free> data_;
  Index size_ = 0;
};

}  // namespace qkv
