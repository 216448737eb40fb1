// The promise that a warm call on the calling thread allocates nothing, kept by counting every operator new of the
// program.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "qkv/attention/attention.h"
#include "support/random.h"

namespace {

std::atomic<std::size_t> num_allocations = 0;

void* count_and_allocate(std::size_t size, std::size_t alignment) {
  ++num_allocations;
  if (void* memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// Not inlined: g++ 12 otherwise takes the pair malloc/free inside for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
  return count_and_allocate(size, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  return count_and_allocate(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace qkv {
namespace {

TEST(AttentionInto, AllocatesNothingOnTheCallingThreadOnceTheWorkspaceIsWarm) {
  test::Random random(1);
  const auto q = random.tensor<4>({2, 4, 61, 24}), k = random.tensor<4>({2, 2, 150, 24}),
             v = random.tensor<4>({2, 2, 150, 40}), bias = random.tensor<4>({1, 1, 61, 150});
  Tensor<float, 4> out({2, 4, 61, 40}), weights({2, 4, 61, 150});
  Tensor<float, 3> lse({2, 4, 61}), entropy({2, 4, 61});
  AttentionOutput output(out);
  output.lse = lse.view();
  output.entropy = entropy.view();
  output.attn_weights = weights.view();
  const AttentionOptions options{.softcap = 5.0,
                                 .attn_bias = bias.view(),
                                 .mask = {.causal = true, .window = Window{.left = 40}},
                                 .executor = &calling_thread_executor()};
  Workspace workspace;
  attention_into(output, q, k, v, options, workspace);
  const std::size_t before = num_allocations;
  attention_into(output, q, k, v, options, workspace);
  EXPECT_EQ(num_allocations.load(), before);
  EXPECT_GT(before, 0u);
}

}  // namespace
}  // namespace qkv
