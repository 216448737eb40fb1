#include "qkv/core/memory.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

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
