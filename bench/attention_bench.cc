// Attention of several shapes and masks beside two plain ways to compute it. In each iteration a loop of nothing but fused
// multiply-adds, on the same SIMD target and threads, runs first; the counters are medians over the iterations:
//   GFLOP/s  2 * visible pairs * (head_dim + v_head_dim) flops a head, over the time of a call
//   %FMA     that rate over the rate of the loop beside it
//   GB/s     of the tensors that a call must touch: q, k, v, out, keep and attn_bias, once each

#include <benchmark/benchmark.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "bench/baselines.h"
#include "bench/rates.h"
#include "qkv/attention/attention.h"
#include "qkv/attention/resolve.h"
#include "qkv/kernels/target.h"
#include "support/attention_case.h"

namespace qkv::bench {

namespace {

using test::AttentionCase;
using test::Layout;
using test::MaskKind;

// A baseline that would take seconds a call is left out.
constexpr Index kLongestUnfused = 1024, kLongestNaive = 512;

std::vector<AttentionCase> cases() {
  const auto self = [](Index len, Index dim, MaskKind mask = MaskKind::kNone) {
    return AttentionCase{.num_heads = 8,
                         .num_kv_heads = 8,
                         .q_len = len,
                         .kv_len = len,
                         .head_dim = dim,
                         .v_head_dim = dim,
                         .mask = mask};
  };
  std::vector<AttentionCase> all{self(128, 64), self(512, 64), self(1024, 64), self(4096, 64), self(1024, 128)};
  for (const Index len : {128, 512, 4096}) all.push_back(self(len, 64, MaskKind::kCausalLower));
  for (const MaskKind mask : {MaskKind::kCausalWindow, MaskKind::kKeep, MaskKind::kBias, MaskKind::kDocuments})
    all.push_back(self(512, 64, mask));
  all.push_back(self(512, 64));
  all.back().num_kv_heads = 2;
  all.push_back(self(512, 64));
  all.back().layout = Layout::kInterleaved;
  return all;
}

// A case with everything that the benchmarks need of it.
struct Problem {
  Problem(const AttentionCase& c, Index num_threads)
      : executor(num_threads),
        inputs(c),
        out({c.batch, c.num_heads, c.q_len, c.v_head_dim}),
        args(resolve(inputs.q(), inputs.k(), inputs.v(), inputs.options)),
        flops(2 * visible_pairs(args) * static_cast<double>(c.head_dim + c.v_head_dim)) {
    inputs.options.executor = &executor;
  }

  double bytes() const {
    const auto& options = inputs.options;
    const Index num_bias = options.attn_bias ? options.attn_bias->size() : 0;
    const Index num_floats = args.q.size() + args.k.size() + args.v.size() + out.size() + num_bias;
    const Index keep_bytes = options.mask.keep ? options.mask.keep->size() : 0;
    return static_cast<double>(num_floats * static_cast<Index>(sizeof(float)) + keep_bytes);
  }

  TbbExecutor executor;
  test::CaseInputs inputs;
  Tensor<float, 4> out;
  Args args;  // borrows from inputs
  double flops;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <class Call>
double seconds_of(Index calls, const Call& call) {
  const double begin = seconds_now();
  for (Index n = 0; n < calls; ++n) call();
  return (seconds_now() - begin) / static_cast<double>(calls);
}

// Times call(), which computes problem.out.
template <class Call>
void measure(benchmark::State& state, Problem& problem, const Call& call) {
  constexpr double kTurnSeconds = 0.01, kLoopSeconds = 0.005;
  call();
  if (!is_right(problem.args, problem.out.view(), problem.executor)) {
    state.SkipWithError("wrong result");
    return;
  }
  const Index calls = std::max<Index>(1, static_cast<Index>(kTurnSeconds / seconds_of(1, call)));
  std::vector<double> seconds, percents;
  for ([[maybe_unused]] auto iteration : state) {
    const double loop_gflops = fma_gflops(problem.executor, Precision::kF32, kLoopSeconds);
    seconds.push_back(seconds_of(calls, call));
    percents.push_back(100 * problem.flops / seconds.back() / 1e9 / loop_gflops);
    state.SetIterationTime(seconds.back());
  }
  state.counters["GFLOP/s"] = problem.flops / median(seconds) / 1e9;
  state.counters["%FMA"] = median(percents);
  state.counters["GB/s"] = problem.bytes() / median(seconds) / 1e9;
}

void run_qkv(benchmark::State& state, const AttentionCase& c, Index num_threads) {
  Problem problem(c, num_threads);
  Workspace workspace;
  const auto& inputs = problem.inputs;
  measure(state, problem,
          [&] { attention_into(problem.out.view(), inputs.q(), inputs.k(), inputs.v(), inputs.options, workspace); });
}

void run_unfused(benchmark::State& state, const AttentionCase& c, Index num_threads) {
  Problem problem(c, num_threads);
  const Tensor<float, 4> bias = dense_bias(problem.args);
  UnfusedScratch scratch = unfused_scratch(problem.args);
  measure(state, problem, [&] { unfused_attention(problem.args, bias, problem.out, scratch, problem.executor); });
}

void run_naive(benchmark::State& state, const AttentionCase& c, Index num_threads) {
  Problem problem(c, num_threads);
  const Tensor<float, 4> bias = dense_bias(problem.args);
  measure(state, problem, [&] { naive_attention(problem.args, bias, problem.out, problem.executor); });
}

using Runner = void (*)(benchmark::State&, const AttentionCase&, Index);

void add(const std::string& name, Runner runner, const AttentionCase& c, Index num_threads, Index iterations) {
  const std::string full_name = "attention_forward/" + name + "/" + c.name() + "/T" + std::to_string(num_threads);
  benchmark::RegisterBenchmark(full_name.c_str(), [=](benchmark::State& state) { runner(state, c, num_threads); })
      ->UseManualTime()
      ->Iterations(iterations)
      ->Unit(benchmark::kMillisecond);
}

void add_all() {
  for (const AttentionCase& c : cases()) {
    for (const Index num_threads : std::set<Index>{1, default_num_threads()}) {
      add("qkv", run_qkv, c, num_threads, 15);
      if (c.q_len <= kLongestUnfused) add("unfused", run_unfused, c, num_threads, 7);
      if (c.q_len <= kLongestNaive) add("naive", run_naive, c, num_threads, 3);
    }
  }
}

}  // namespace

}  // namespace qkv::bench

int main(int argc, char** argv) {
  benchmark::AddCustomContext("qkv_target", std::string(qkv::kernels::active_target()));
  qkv::bench::add_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
