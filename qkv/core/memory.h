#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace qkv {

/// Of all memory: one cache line, and the widest vector of any target.
inline constexpr std::size_t kMemoryAlignment = 64;

/// Gives back what allocate_memory() gave.
struct FreeMemory {
  /// Frees `memory`, which may be null.
  void operator()(void* memory) const { ::operator delete (memory, std::align_val_t{kMemoryAlignment}); }
};
/// Memory that frees itself.
using Memory = std::unique_ptr<void, FreeMemory>;

/// Uninitialised memory, aligned to kMemoryAlignment. From some MiB on it comes in huge pages where Linux
/// has them to give (man 2 madvise): a layer that writes 25 MB of new memory would otherwise take 6000 page faults.
/// Errors: std::bad_alloc.
Memory allocate_memory(std::size_t num_bytes);

}  // namespace qkv
