#include "qkv/core/memory.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace qkv {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

Memory allocate_memory(std::size_t num_bytes) {
  const std::align_val_t alignment{num_bytes < kHugePage ? kMemoryAlignment : kHugePage};
  Memory memory(::operator new(num_bytes, alignment), FreeMemory{alignment});
#if defined(__linux__)
  // Whole pages only, so that nothing more becomes resident; that a kernel refuses does no harm.
  if (num_bytes >= kHugePage) madvise(memory.get(), num_bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  return memory;
}

}  // namespace qkv
