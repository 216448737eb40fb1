// Every shape, mask and layout that the contract allows, on every SIMD target of this machine, against the oracle.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "qkv/attention/attention.h"
#include "qkv/attention/resolve.h"
#include "support/attention_case.h"
#include "support/targets.h"
#include "support/tolerance.h"

namespace qkv::test {
namespace {

// The values each part of a case takes. Lengths sit around vectors (4, 8, 16 lanes), panels (24, 48) and key tiles
// (96).
struct Factors {
  std::vector<Index> lengths{1, 2, 7, 8, 9, 15, 16, 17, 23, 24, 25, 47, 48, 49, 95, 96, 97, 113, 203};
  std::vector<Index> head_dims{1, 3, 8, 40, 59, 64, 80, 111, 128, 256};
  std::vector<std::array<Index, 2>> heads{{1, 1}, {4, 4}, {6, 2}, {6, 1}};
};

constexpr Index kNumFactors = 8;

// Cases such that every pair of values of any two factors occurs together in one of them.
std::vector<AttentionCase> make_pairwise_cases() {
  const Factors factors;
  const std::array<Index, kNumFactors> sizes{static_cast<Index>(factors.lengths.size()),
                                             static_cast<Index>(factors.lengths.size()),
                                             static_cast<Index>(factors.head_dims.size()),
                                             static_cast<Index>(factors.head_dims.size()),
                                             static_cast<Index>(factors.heads.size()),
                                             kNumMaskKinds,
                                             4,
                                             kNumScoringKinds};
  std::set<std::array<Index, 4>> missing;  // factor, value, factor, value
  for (Index f = 0; f < kNumFactors; ++f)
    for (Index g = f + 1; g < kNumFactors; ++g)
      for (Index x = 0; x < sizes[f]; ++x)
        for (Index y = 0; y < sizes[g]; ++y) missing.insert({f, x, g, y});

  Random random(7);
  std::vector<AttentionCase> cases;
  while (!missing.empty()) {
    // Of some random candidates around a missing pair the one that covers most.
    std::array<Index, kNumFactors> best{};
    std::size_t best_count = 0;
    for (int attempt = 0; attempt < 8; ++attempt) {
      std::array<Index, kNumFactors> choice;
      for (Index f = 0; f < kNumFactors; ++f) choice[f] = random.below(sizes[f]);
      const auto& [f, x, g, y] = *missing.begin();
      choice[f] = x;
      choice[g] = y;
      std::size_t count = 0;
      for (Index a = 0; a < kNumFactors; ++a)
        for (Index b = a + 1; b < kNumFactors; ++b) count += missing.count({a, choice[a], b, choice[b]});
      if (count > best_count) best = choice, best_count = count;
    }
    for (Index a = 0; a < kNumFactors; ++a)
      for (Index b = a + 1; b < kNumFactors; ++b) missing.erase({a, best[a], b, best[b]});
    const auto mask = static_cast<MaskKind>(best[5]);
    const bool is_ragged = mask == MaskKind::kRagged || mask == MaskKind::kRaggedCausal;
    cases.push_back({.batch = is_ragged ? 1 : 1 + static_cast<Index>(cases.size() % 3),
                     .num_heads = factors.heads[best[4]][0],
                     .num_kv_heads = factors.heads[best[4]][1],
                     .q_len = factors.lengths[best[0]],
                     .kv_len = factors.lengths[best[1]],
                     .head_dim = factors.head_dims[best[2]],
                     .v_head_dim = factors.head_dims[best[3]],
                     .scoring = static_cast<ScoringKind>(best[7]),
                     .mask = mask,
                     .layout = static_cast<Layout>(best[6]),
                     .seed = cases.size() + 1});
  }
  return cases;
}

const std::vector<AttentionCase>& pairwise_cases() {
  static const std::vector<AttentionCase> cases = make_pairwise_cases();
  return cases;
}

// Where every case would take too long, under a sanitizer: QKV_SWEEP_STEP=n takes every n-th.
std::size_t sweep_step() {
  const char* step = std::getenv("QKV_SWEEP_STEP");
  return step ? std::max(1ul, std::stoul(step)) : 1;
}

template <class T>
void expect_agreement_with_oracle(const AttentionCase& c, Observe observe) {
  BasicCaseInputs<T> inputs(c);
  inputs.options.observe = observe;
  inputs.options.executor = &calling_thread_executor();
  const auto args = resolve(inputs.q(), inputs.k(), inputs.v(), inputs.options);
  const Oracle oracle(args);
  for (std::string_view target : kernels::supported_targets()) {
    kernels::set_target_for_test(target);
    const auto got = attention(inputs.q(), inputs.k(), inputs.v(), inputs.options);
    kernels::set_target_for_test("");
    expect_accepted(got, oracle, args, std::string(target) + " " + c.name());
    if (testing::Test::HasFailure()) return;
  }
}

// Every `step`-th case.
template <class T>
void expect_agreement_with_oracle(std::size_t step) {
  const auto& cases = pairwise_cases();
  for (std::size_t n = 0; n < cases.size() && !testing::Test::HasFailure(); n += step)
    expect_agreement_with_oracle<T>(cases[n], {.lse = true, .entropy = true, .attn_weights = true});
}

TEST(AttentionSweep, AgreesWithTheOracleOnEveryTarget) {
  expect_agreement_with_oracle<float>(sweep_step());
}

TEST(AttentionSweep, AgreesWithTheOracleOnEveryTargetInDouble) {
  expect_agreement_with_oracle<double>(3 * sweep_step());
}

// Heads whose tiles are fetched ahead, with more than one panel, and one head after another in a task; and heads of which only outputs are.
TEST(AttentionSweep, AgreesWithTheOracleWhereKeysOrOutputsAreFetchedAhead) {
  const auto expect_fetched = [](AttentionCase c, bool with_keys = true) {
    for (const MaskKind mask : {MaskKind::kNone, MaskKind::kCausalLower, MaskKind::kWindow, MaskKind::kBias,
                                MaskKind::kRaggedCausal, MaskKind::kEverything}) {
      if (mask == MaskKind::kRaggedCausal && c.batch > 1) continue;
      c.mask = mask;
      const CaseInputs inputs(c);
      const AttentionShapes shapes{inputs.q().shape(), inputs.k().shape(), inputs.v().shape()};
      const auto plan = kernels::plan_attention_forward<float>(forward_shape(shapes, inputs.options));
      ASSERT_EQ(plan.fetches_ahead, with_keys);
      ASSERT_TRUE(plan.fetches_outputs);
      expect_agreement_with_oracle<float>(c, {.lse = true});
    }
  };
  expect_fetched({.num_heads = 2, .num_kv_heads = 1, .q_len = 100, .kv_len = 700, .head_dim = 128, .v_head_dim = 128});
  expect_fetched({.batch = 25,
                  .num_heads = 6,
                  .num_kv_heads = 3,
                  .q_len = 33,
                  .kv_len = 120,
                  .head_dim = 64,
                  .v_head_dim = 63,
                  .layout = Layout::kInterleaved});
  expect_fetched({.num_heads = 8, .num_kv_heads = 8, .q_len = 500, .kv_len = 40, .head_dim = 64, .v_head_dim = 64},
                 false);
}

class AttentionThreads : public OnEveryTarget {};

TEST_P(AttentionThreads, GivesTheSameBitsForAnyNumberOfThreadsAndWhateverIsObserved) {
  const auto& cases = pairwise_cases();
  TbbExecutor two(2), four(4);
  for (std::size_t n = 0; n < cases.size(); n += 5 * sweep_step()) {
    CaseInputs inputs(cases[n]);
    inputs.options.executor = &calling_thread_executor();
    const auto plain = attention(inputs.q(), inputs.k(), inputs.v(), inputs.options);
    inputs.options.observe = {.lse = true, .entropy = true, .attn_weights = true};
    const auto one = attention(inputs.q(), inputs.k(), inputs.v(), inputs.options);
    ASSERT_EQ(0, std::memcmp(plain.out.data(), one.out.data(), plain.out.size() * sizeof(float))) << cases[n].name();
    for (Executor* executor : {&two, &four}) {
      inputs.options.executor = executor;
      const auto many = attention(inputs.q(), inputs.k(), inputs.v(), inputs.options);
      const auto same = [](const auto& a, const auto& b) {
        return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
      };
      ASSERT_TRUE(same(one.out, many.out) && same(one.lse, many.lse) && same(one.entropy, many.entropy) &&
                  same(one.attn_weights, many.attn_weights))
          << cases[n].name();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, AttentionThreads, testing::ValuesIn(kernels::supported_targets()),
                         OnEveryTarget::name);

}  // namespace
}  // namespace qkv::test
