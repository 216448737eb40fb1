// Attention on several threads, and from several threads at once. ThreadSanitizer runs these too (preset tsan): small
// cases, but of every mask and with everything that can be observed.

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "qkv/attention/attention.h"
#include "support/attention_case.h"

namespace qkv::test {
namespace {

AttentionCase small_case(int mask, int scoring) {
  const bool is_ragged =
      mask == static_cast<int>(MaskKind::kRagged) || mask == static_cast<int>(MaskKind::kRaggedCausal);
  return {.batch = is_ragged ? 1 : 2,
          .num_heads = 4,
          .num_kv_heads = 2,
          .q_len = 59,
          .kv_len = 101,
          .head_dim = 9,
          .v_head_dim = 7,
          .scoring = static_cast<ScoringKind>(scoring),
          .mask = static_cast<MaskKind>(mask),
          .seed = static_cast<std::uint64_t>(mask + 1)};
}

AttentionResult attend(const CaseInputs& inputs, Executor* executor) {
  AttentionOptions options = inputs.options;
  options.observe = {.lse = true, .entropy = true, .attn_weights = true};
  options.executor = executor;
  return attention(inputs.q(), inputs.k(), inputs.v(), options);
}

template <int Rank>
bool same_bits(const Tensor<float, Rank>& a, const Tensor<float, Rank>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

bool same_bits(const AttentionResult& a, const AttentionResult& b) {
  return same_bits(a.out, b.out) && same_bits(a.lse, b.lse) && same_bits(a.entropy, b.entropy) &&
         same_bits(a.attn_weights, b.attn_weights);
}

TEST(AttentionThreads, ManyWorkersGiveTheBitsOfOne) {
  TbbExecutor executor(4);
  for (int scoring = 0; scoring < kNumScoringKinds; ++scoring)
    for (int mask = 0; mask < kNumMaskKinds; ++mask) {
      const CaseInputs inputs(small_case(mask, scoring));
      const auto expected = attend(inputs, &calling_thread_executor());
      EXPECT_TRUE(same_bits(attend(inputs, &executor), expected)) << small_case(mask, scoring).name();
    }
}

// Each of the program's threads calls attention over and over, all with the same inputs.
void expect_same_bits_from_threads(Executor* executor) {
  constexpr int kThreads = 4, kCalls = 6;
  const CaseInputs inputs(small_case(static_cast<int>(MaskKind::kEverything), 0));
  const auto expected = attend(inputs, &calling_thread_executor());
  std::vector<int> num_equal(kThreads, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int call = 0; call < kCalls; ++call) num_equal[t] += same_bits(attend(inputs, executor), expected);
    });
  for (auto& thread : threads) thread.join();
  for (int count : num_equal) EXPECT_EQ(count, kCalls);
}

TEST(AttentionThreads, ThreadsOfTheProgramMayShareOneExecutor) {
  TbbExecutor executor(3);
  expect_same_bits_from_threads(&executor);
}

TEST(AttentionThreads, ThreadsOfTheProgramMayAllUseTheDefaultExecutor) {
  expect_same_bits_from_threads(nullptr);
}

TEST(AttentionThreads, ThreadsOfTheProgramMayEachBeTheirOwnExecutor) {
  expect_same_bits_from_threads(&calling_thread_executor());
}

}  // namespace
}  // namespace qkv::test
