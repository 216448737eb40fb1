// A million tokens with a sliding window: what the call takes beside its output.
//
//   long_window [THREADS [TOKENS]]
//
// One head of 64 dimensions, window {4096, 0}. Prints the time, the bytes of the output and how far the peak of resident memory during
// the call lies above what was resident before it, the output included.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "bench/rates.h"
#include "qkv/attention/attention.h"
#include "qkv/core/random.h"
#include "qkv/core/tensor.h"

namespace qkv::bench {

namespace {

constexpr Index kHeadDim = 64, kWindow = 4096;

// Numbers in -1 .. 1.
Tensor<float, 4> random_tensor(Index len, std::uint64_t seed) {
  Tensor<float, 4> x({1, 1, len, kHeadDim});
  RandomStream random(seed);
  for (Index n = 0; n < x.size(); ++n) x.data()[n] = 2 * random.uniform() - 1;
  return x;
}

// A line of /proc/self/status, in bytes.
double status_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field + ":")) return 1024 * std::strtod(line.c_str() + field.size() + 1, nullptr);
  return NAN;
}

// Lets VmHWM, the peak of resident memory, start from what is resident now.
void reset_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

// The largest error of the rows at both ends and in the middle, against plain loops in double.
double largest_error(CView<2> q, CView<2> k, CView<2> v, CView<2> out) {
  const Index len = q.shape(0);
  double largest = 0;
  for (const Index i : {Index{0}, len / 2, len - 1}) {
    std::vector<double> expected(kHeadDim, 0);
    double row_sum = 0;
    for (Index j = std::max<Index>(0, i - kWindow); j <= i; ++j) {
      double dot = 0;
      for (Index d = 0; d < kHeadDim; ++d) dot += double{q(i, d)} * k(j, d);
      const double weight = std::exp(dot / std::sqrt(double{kHeadDim}));
      row_sum += weight;
      for (Index d = 0; d < kHeadDim; ++d) expected[static_cast<std::size_t>(d)] += weight * v(j, d);
    }
    for (Index d = 0; d < kHeadDim; ++d)
      largest = std::max(largest, std::abs(expected[static_cast<std::size_t>(d)] / row_sum - out(i, d)));
  }
  return largest;
}

void run(Index num_threads, Index len) {
  TbbExecutor executor(num_threads);
  const auto q = random_tensor(len, 1), k = random_tensor(len, 2), v = random_tensor(len, 3);
  fma_gflops(executor, Precision::kF32, 0.01);  // the threads are there
  reset_peak();
  const double before = status_bytes("VmRSS");
  const double begin = seconds_now();
  const AttentionResult result =
      attention(q, k, v, {.mask = {.window = Window{.left = kWindow, .right = 0}}, .executor = &executor});
  const double seconds = seconds_now() - begin;
  const double above = status_bytes("VmHWM") - before;
  const double output = static_cast<double>(result.out.size()) * sizeof(float);
  const auto rows = [](const Tensor<float, 4>& x) { return x.view().select(0, 0).select(0, 0); };
  std::printf("%lld tokens, 1 head, d=%lld, window {%lld, 0}, %lld threads: %.2f s\n", static_cast<long long>(len),
              static_cast<long long>(kHeadDim), static_cast<long long>(kWindow), static_cast<long long>(num_threads),
              seconds);
  std::printf("output %.1f MB, peak above before the call %.1f MB, beside the output %.1f MB\n", output / 1e6,
              above / 1e6, (above - output) / 1e6);
  std::printf("largest error of three rows against double: %.1e\n",
              largest_error(rows(q), rows(k), rows(v), rows(result.out)));
}

}  // namespace

}  // namespace qkv::bench

int main(int argc, char** argv) {
  const auto number = [&](int n, qkv::Index otherwise) { return argc > n ? std::atoll(argv[n]) : otherwise; };
  qkv::bench::run(number(1, qkv::default_num_threads()), number(2, 1000000));
}
