#include "bench/rates.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <numeric>
#include <vector>

#include "bench/read_loop.h"

namespace qkv::bench {

namespace {

// Many for each worker, so that one that comes late costs little.
constexpr Index kTasksPerWorker = 16;

struct FmaRun {
  double flops, seconds;
};

FmaRun run_fma_loops(Executor& executor, Precision precision, Index steps) {
  std::vector<Index> flops(static_cast<std::size_t>(kTasksPerWorker * executor.num_workers()));
  const double begin = seconds_now();
  executor.run(static_cast<Index>(flops.size()),
               [&](Index task, Index) { flops[static_cast<std::size_t>(task)] = fma_loop(precision, steps); });
  const double seconds = seconds_now() - begin;
  return {static_cast<double>(std::accumulate(flops.begin(), flops.end(), Index{0})), seconds};
}

}  // namespace

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double fma_gflops(Executor& executor, Precision precision, double seconds) {
  constexpr Index kProbeSteps = 2000;  // some tens of microseconds: says how many steps `seconds` takes
  const FmaRun probe = run_fma_loops(executor, precision, kProbeSteps);
  const auto steps = static_cast<Index>(static_cast<double>(kProbeSteps) * seconds / probe.seconds);
  const FmaRun run = run_fma_loops(executor, precision, std::max(steps, kProbeSteps));
  return run.flops / run.seconds / 1e9;
}

double read_gbytes(Executor& executor, const float* data, Index size) {
  const Index num_tasks = kTasksPerWorker * executor.num_workers();
  const Index share = size / num_tasks / kReadStep * kReadStep;
  std::vector<float> sums(static_cast<std::size_t>(num_tasks));
  const double begin = seconds_now();
  executor.run(num_tasks, [&](Index task, Index) {
    sums[static_cast<std::size_t>(task)] = read_loop(data + task * share, share);
  });
  const double seconds = seconds_now() - begin;
  volatile float used = std::accumulate(sums.begin(), sums.end(), 0.0f);  // or the compiler drops the loops
  static_cast<void>(used);
  return static_cast<double>(num_tasks * share) * sizeof(float) / seconds / 1e9;
}

}  // namespace qkv::bench
