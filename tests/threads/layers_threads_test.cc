// One layer used by several threads at once: forward is const.

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "nn/layer_support.h"
#include "qkv/nn/transformer_block.h"
#include "support/random.h"

namespace qkv::test {
namespace {

TransformerBlock random_block(Random& random, Index embed_dim, Index ffn_dim) {
  return {.attention = {.q_proj = random_linear(random, embed_dim, embed_dim),
                        .k_proj = random_linear(random, embed_dim, embed_dim),
                        .v_proj = random_linear(random, embed_dim, embed_dim),
                        .out_proj = random_linear(random, embed_dim, embed_dim),
                        .num_heads = 4},
          .attention_norm = random_norm(random, embed_dim),
          .feed_forward = {.up_proj = random_linear(random, ffn_dim, embed_dim),
                           .down_proj = random_linear(random, embed_dim, ffn_dim)},
          .feed_forward_norm = random_norm(random, embed_dim)};
}

TEST(LayerThreads, ThreadsOfTheProgramMayShareABlockAndAnExecutor) {
  constexpr int kThreads = 3, kCalls = 3;
  Random random(1);
  const TransformerBlock block = random_block(random, 32, 200);
  const auto x = random.tensor<3>({2, 65, 32});
  const auto expected = forward(block, x, {}, {.executor = &calling_thread_executor()}).out;
  TbbExecutor executor(4);
  std::vector<int> num_equal(kThreads, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int call = 0; call < kCalls; ++call) {
        const auto got = forward(block, x, {}, {.executor = &executor}).out;
        num_equal[t] += std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0;
      }
    });
  for (auto& thread : threads) thread.join();
  for (int count : num_equal) EXPECT_EQ(count, kCalls);
}

}  // namespace
}  // namespace qkv::test
