// The promise that a warm call on the calling thread allocates nothing, kept by counting every operator new of the
// program.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "qkv/attention/attention.h"
#include "support/attention_case.h"

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

// Every kind of mask and score; and once more with a NaN, whose panels are done again.
TEST(AttentionInto, AllocatesNothingOnTheCallingThreadOnceTheWorkspaceIsWarm) {
  for (int n = 0; n < test::kNumMaskKinds * test::kNumScoringKinds * 2; ++n) {
    test::AttentionCase c{
        .num_heads = 4, .num_kv_heads = 2, .q_len = 61, .kv_len = 150, .head_dim = 24, .v_head_dim = 40};
    c.mask = static_cast<test::MaskKind>(n / 2 % test::kNumMaskKinds);
    c.scoring = static_cast<test::ScoringKind>(n / 2 / test::kNumMaskKinds);
    test::CaseInputs inputs(c);
    inputs.options.executor = &calling_thread_executor();
    Tensor<float, 4> v({1, 2, 150, 40}, 1.0f);
    if (n % 2 == 1) v.data()[77] = test::kNaN;
    Tensor<float, 4> out({1, 4, 61, 40}), weights({1, 4, 61, 150});
    Tensor<float, 3> lse({1, 4, 61}), entropy({1, 4, 61});
    AttentionOutput output(out);
    output.lse = lse.view();
    output.entropy = entropy.view();
    output.attn_weights = weights.view();
    Workspace workspace;
    attention_into(output, inputs.q(), inputs.k(), v.view(), inputs.options, workspace);
    const std::size_t before = num_allocations;
    attention_into(output, inputs.q(), inputs.k(), v.view(), inputs.options, workspace);
    ASSERT_EQ(num_allocations.load(), before) << c.name();
    ASSERT_GT(before, 0u);
  }
}

}  // namespace
}  // namespace qkv
