#include "qkv/core/memory.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "qkv/core/aligned_buffer.h"

namespace qkv {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(Memory, IsAlignedAndAllOfItCanBeWritten) {
  for (std::size_t num_bytes : {std::size_t{1}, std::size_t{63}, 2 * kMiB - 1, 2 * kMiB, 5 * kMiB + 17}) {
    const Memory memory = allocate_memory(num_bytes);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % kMemoryAlignment, 0u) << num_bytes;
    std::memset(memory.get(), 0x5a, num_bytes);
    EXPECT_EQ(static_cast<unsigned char*>(memory.get())[num_bytes - 1], 0x5a) << num_bytes;
  }
}

// Where a block of so many bytes lies that is freed at once.
void* place_of(std::size_t num_bytes) {
  return allocate_memory(num_bytes).get();
}

// On a thread of its own, which has kept nothing yet.
template <class Test>
void on_new_thread(const Test& test) {
  std::thread(test).join();
}

TEST(MemoryReuse, GivesBlocksThatWereFreedForUpToHalfTheirSize) {
  on_new_thread([] {
    const MemoryReuse reuse;
    void* const large = place_of(4 * kMiB);
    EXPECT_EQ(place_of(4 * kMiB), large);
    EXPECT_EQ(place_of(3 * kMiB), large);
    EXPECT_EQ(place_of(4 * kMiB), large) << "a block keeps its size, whatever it was used for";
    const Memory used = allocate_memory(4 * kMiB);
    EXPECT_EQ(used.get(), large);
    const Memory other = allocate_memory(4 * kMiB);
    EXPECT_NE(other.get(), large) << "a block in use was given again";
    std::memset(used.get(), 1, 4 * kMiB);
    std::memset(other.get(), 2, 4 * kMiB);
    EXPECT_EQ(static_cast<unsigned char*>(used.get())[4 * kMiB - 1], 1);
  });
}

TEST(MemoryReuse, GivesNoBlockThatIsTooSmallOrFarTooLarge) {
  on_new_thread([] {
    const MemoryReuse reuse;
    void* const kept = place_of(4 * kMiB);
    const Memory larger = allocate_memory(4 * kMiB + 1), smaller = allocate_memory(2 * kMiB - 1);
    EXPECT_NE(larger.get(), kept);
    EXPECT_NE(smaller.get(), kept);
    EXPECT_EQ(place_of(2 * kMiB), kept);
  });
}

TEST(MemoryReuse, GivesTheSmallestBlockThatDoes) {
  on_new_thread([] {
    const MemoryReuse reuse;
    Memory four = allocate_memory(4 * kMiB), three = allocate_memory(3 * kMiB), five = allocate_memory(5 * kMiB);
    void* const smallest = three.get();
    four.reset(), three.reset(), five.reset();
    EXPECT_EQ(place_of(3 * kMiB - 5), smallest);
  });
}

TEST(MemoryReuse, KeepsSixteenBlocksAndForgetsTheOldest) {
  on_new_thread([] {
    const MemoryReuse reuse;
    std::vector<Memory> blocks;
    for (std::size_t n = 0; n < 17; ++n) blocks.push_back(allocate_memory((std::size_t{1} << 16) + n));
    std::vector<void*> places;
    for (Memory& block : blocks) {
      places.push_back(block.get());
      block.reset();
    }
    std::size_t num_kept = 0;
    for (std::size_t n = 17; n-- > 0;) {
      blocks[n] = allocate_memory((std::size_t{1} << 16) + n);
      num_kept += blocks[n].get() == places[n];
    }
    EXPECT_GE(num_kept, 16u);
  });
}

TEST(MemoryReuse, TakesPartWhereBlocksOutliveItOrAreOlder) {
  on_new_thread([] {
    Memory older = allocate_memory(kMiB), inner_block;
    {
      const MemoryReuse reuse;
      void* const place = older.get();
      older.reset();
      {
        const MemoryReuse inner;
        EXPECT_EQ(place_of(kMiB), place);
      }
      inner_block = allocate_memory(kMiB);
      EXPECT_EQ(inner_block.get(), place) << "the end of the inner one freed what the outer one keeps";
    }
    std::memset(inner_block.get(), 1, kMiB);
  });
}

TEST(MemoryReuse, KeepsBlocksForTheNextOne) {
  on_new_thread([] {
    void* place = nullptr;
    {
      const MemoryReuse reuse;
      place = place_of(4 * kMiB);
    }
    const Memory between = allocate_memory(4 * kMiB);
    EXPECT_NE(between.get(), place) << "given where no MemoryReuse lives";
    const MemoryReuse reuse;
    EXPECT_EQ(place_of(4 * kMiB), place);
  });
}

TEST(MemoryReuse, KeepsUpTo32MiBFromOneToTheNextAndForgetsTheOldest) {
  on_new_thread([] {
    void *small = nullptr, *large = nullptr;
    {
      const MemoryReuse reuse;
      Memory oldest = allocate_memory(3 * kMiB), next = allocate_memory(2 * kMiB), last = allocate_memory(30 * kMiB);
      small = next.get(), large = last.get();
      oldest.reset(), next.reset(), last.reset();
    }
    // Whatever was freed the C library may give again, so the others are asked for first.
    const MemoryReuse reuse;
    const Memory kept_large = allocate_memory(30 * kMiB), kept_small = allocate_memory(2 * kMiB);
    EXPECT_EQ(kept_large.get(), large);
    EXPECT_EQ(kept_small.get(), small);
  });
  on_new_thread([] {
    void* place = nullptr;
    {
      const MemoryReuse reuse;
      place = place_of(33 * kMiB);
    }
    const MemoryReuse reuse;
    const Memory half = allocate_memory(17 * kMiB);
    EXPECT_NE(half.get(), place) << "more than 32 MiB were kept";
  });
}

TEST(MemoryReuse, IsOfItsOwnThread) {
  const MemoryReuse reuse;
  Memory memory = allocate_memory(kMiB);
  std::thread([&] { memory.reset(); }).join();
  std::thread([] { EXPECT_NE(allocate_memory(kMiB), nullptr); }).join();
}

TEST(AlignedBuffer, OfNothingHoldsNothing) {
  EXPECT_EQ(AlignedBuffer<float>().data(), nullptr);
  EXPECT_EQ(AlignedBuffer<float>(0).data(), nullptr);
  EXPECT_EQ(AlignedBuffer<float>(0).size(), 0);
}

TEST(AlignedBuffer, RefusesSizesThatNoMemoryHas) {
  EXPECT_THROW(AlignedBuffer<float>(-1), std::bad_alloc);
  EXPECT_THROW(AlignedBuffer<float>(std::numeric_limits<Index>::max()), std::bad_alloc);
}

TEST(AlignedBuffer, MovesAndLeavesTheOtherEmpty) {
  AlignedBuffer<int> first(3);
  int* const data = first.data();
  data[2] = 7;
  AlignedBuffer<int> second(std::move(first));
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(first.data(), nullptr);
  EXPECT_EQ(first.size(), 0);
  first = std::move(second);
  EXPECT_EQ(first.data()[2], 7);
  EXPECT_EQ(first.size(), 3);
  EXPECT_EQ(second.data(), nullptr);
}

}  // namespace
}  // namespace qkv
