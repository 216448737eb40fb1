#include "qkv/kernels/gemm.h"

#include <algorithm>

#include "qkv/kernels/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/gemm.cc"
#include "qkv/kernels/simd_targets.h"
// simd_targets.h comes first.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "qkv/kernels/math-inl.h"
#include "qkv/kernels/tiles-inl.h"
#include "qkv/kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels {
namespace HWY_NAMESPACE {

using F32 = Tag<float>;
using VecF32 = Vec<float>;

// One task packs its tokens into panels once (unless they are few, see kFewTokens), then walks the weights in blocks of rows, each block against every panel:
//   for each block of weight rows (in L2)    for each panel (x^T in lanes)    y^T tile = W x^T -> bias, activation -> y
constexpr Index kMaxPanelsPerTask = 8;  // in L2 beside a block of weights while in_dim is at most 512 or so
// Packing a panel costs as much as 15 or so outputs: a task should have many, if there are enough tasks without cutting the outputs.
constexpr Index kMaxOutputsPerTask = 768, kMinOutputsPerTask = 96;
constexpr Index kEnoughTasks = 8;                 // for a few threads to share evenly
constexpr Index kBlockFloats = Index{48} * 1024;  // 192 KiB of weights: less than half of a 512 KiB L2
constexpr Index kRowStep = 24;                    // whole tiles of 12, 6, 4 or 8 rows; of 16 rows and 8
// Up to this many tokens would leave most lanes of a panel empty; then the lanes run along in_dim instead, and what is left is reading the
// weights once.
constexpr Index kFewTokens = std::min<Index>(4, kLanes<float>);

Index block_rows(Index in_dim) {
  return std::clamp<Index>(kBlockFloats / in_dim / kRowStep, 1, 4) * kRowStep;
}

LinearPlan plan(Index num_tokens, Index in_dim, Index out_dim) {
  LinearPlan plan;
  if (num_tokens == 0 || out_dim == 0) return plan;
  const Index panels = count_panels<float>(num_tokens);
  const auto cut_evenly = [](Index len, Index cuts, Index unit) { return round_up(ceil_div(len, cuts), unit); };
  Index output_cuts = ceil_div(out_dim, kMaxOutputsPerTask);
  const Index token_cuts =
      std::max(ceil_div(panels, kMaxPanelsPerTask), std::min(panels, ceil_div(kEnoughTasks, output_cuts)));
  output_cuts = std::max(output_cuts, std::min(out_dim / kMinOutputsPerTask, ceil_div(kEnoughTasks, token_cuts)));
  plan.panels_per_task = cut_evenly(panels, token_cuts, 1);
  plan.outputs_per_task = cut_evenly(out_dim, output_cuts, kRowStep);
  plan.num_tasks = ceil_div(panels, plan.panels_per_task) * ceil_div(out_dim, plan.outputs_per_task);
  const Index packed_rows = num_tokens <= kFewTokens ? 0 : plan.panels_per_task * in_dim;
  // Every worker's share begins on a cache line.
  plan.workspace_floats = round_up((packed_rows + block_rows(in_dim)) * kMaxPanelWidth<float>, kLineElements<float>);
  return plan;
}

VecF32 activate(F32 d, VecF32 x, Activation activation) {
  const auto half = hn::Mul(x, hn::Set(d, 0.5f));
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return max_keep_nan(d, hn::Zero(d), x);
    case Activation::kGeluErf:  // x/2 (1 + erf(x / sqrt(2)))
      return hn::MulAdd(half, erf(d, hn::Mul(x, hn::Set(d, 0.7071067812f))), half);
    case Activation::kGeluTanh: {  // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
      const auto cubic = hn::MulAdd(hn::Mul(x, hn::Mul(x, x)), hn::Set(d, 0.044715f), x);
      return hn::MulAdd(half, tanh(d, hn::Mul(cubic, hn::Set(d, 0.7978845608f))), half);
    }
  }
  return x;
}

// y for `count` tokens from `token` on out of y^T [rows][width], with bias and activation.
HWY_NOINLINE void write_outputs(const LinearArgs& args, Index token, Index count, Index first_output, Index rows,
                                Index width, const float* HWY_RESTRICT yt) {
  const F32 d;
  unpack_panel(yt, width, count, rows, args.y.data() + token * args.y.stride(0) + first_output, args.y.stride(0),
               [&](Index r, VecF32 v) {
                 if (args.bias) v = hn::Add(v, hn::Set(d, args.bias[first_output + r]));
                 return activate(d, v, args.activation);
               });
}

// yt[r][t] = w_r . x_t for rows r .. r+kRows-1 of the block and all kTokens tokens.
template <int kRows, int kTokens>
HWY_INLINE void dot_rows(const LinearArgs& args, Index first_output, Index r, Index width, float* HWY_RESTRICT yt) {
  const F32 d;
  const Index in_dim = args.x.shape(1);
  const float *w[kRows], *x[kTokens];
  for (int n = 0; n < kRows; ++n) w[n] = args.weight.data() + (first_output + r + n) * args.weight.stride(0);
  for (int t = 0; t < kTokens; ++t) x[t] = args.x.data() + t * args.x.stride(0);
  VecF32 sums[kRows][kTokens];
  for (auto& row : sums)
    for (auto& v : row) v = hn::Zero(d);
  // The rows that come next, if any: their beginnings are where the processor's own prefetching has to start anew.
  const bool are_last = first_output + r + 2 * kRows > args.weight.shape(0);
  const Index to_next_rows = are_last ? 0 : kRows * args.weight.stride(0);
  Index c = 0;
  for (; c + kLanes<float> <= in_dim; c += kLanes<float>) {
    if (c % kLineElements<float> == 0)
      for (int n = 0; n < kRows; ++n) __builtin_prefetch(w[n] + to_next_rows + c, 0, 2);
    VecF32 tokens[kTokens];
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) tokens[t] = hn::LoadU(d, x[t] + c);
#pragma GCC unroll 4
    for (int n = 0; n < kRows; ++n) {
      const auto weights = hn::LoadU(d, w[n] + c);
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) sums[n][t] = hn::MulAdd(weights, tokens[t], sums[n][t]);
    }
  }
  for (int n = 0; n < kRows; ++n) {
    for (int t = 0; t < kTokens; ++t) {
      float sum = hn::GetLane(hn::SumOfLanes(d, sums[n][t]));
      for (Index rest = c; rest < in_dim; ++rest) sum += w[n][rest] * x[t][rest];
      yt[(r + n) * width + t] = sum;
    }
  }
}

// Some weight rows against all kTokens tokens.
template <int kTokens>
HWY_NOINLINE void few_token_outputs(const LinearArgs& args, Index first_output, Index rows, Index width, float* yt) {
  constexpr int kRows = kTokens <= 2 ? 4 : 2;  // 8 sums at most: 16 registers hold them beside tokens and weights
  std::fill_n(yt, rows * width, 0.0f);
  Index r = 0;
  for (; r + kRows <= rows; r += kRows) dot_rows<kRows, kTokens>(args, first_output, r, width, yt);
  for (; r < rows; ++r) dot_rows<1, kTokens>(args, first_output, r, width, yt);
}

void few_token_outputs(const LinearArgs& args, Index first_output, Index rows, Index width, float* yt) {
  switch (args.x.shape(0)) {
    case 1:
      return few_token_outputs<1>(args, first_output, rows, width, yt);
    case 2:
      return few_token_outputs<2>(args, first_output, rows, width, yt);
    case 3:
      return few_token_outputs<3>(args, first_output, rows, width, yt);
    default:
      return few_token_outputs<4>(args, first_output, rows, width, yt);
  }
}

void few_tokens_task(const LinearArgs& args, Index output_begin, Index output_end, float* yt) {
  const Index num_tokens = args.x.shape(0), width = round_up(num_tokens, kLanes<float>),
              block = block_rows(args.x.shape(1));
  for (Index output = output_begin; output < output_end; output += block) {
    const Index rows = std::min(block, output_end - output);
    few_token_outputs(args, output, rows, width, yt);
    write_outputs(args, 0, num_tokens, output, rows, width, yt);
  }
}

void task(const LinearArgs& args, const LinearPlan& plan, Index task_index, float* workspace) {
  const Index num_tokens = args.x.shape(0), in_dim = args.x.shape(1), out_dim = args.weight.shape(0);
  // All tokens by some outputs before the next outputs: neighbours share weights, and of the cuts of tokens the last is smaller.
  const Index num_panels = count_panels<float>(num_tokens), token_cuts = ceil_div(num_panels, plan.panels_per_task);
  const Index panel_begin = task_index % token_cuts * plan.panels_per_task;
  const Index panel_end = std::min(panel_begin + plan.panels_per_task, num_panels);
  const Index output_begin = task_index / token_cuts * plan.outputs_per_task;
  const Index output_end = std::min(output_begin + plan.outputs_per_task, out_dim);
  if (num_tokens <= kFewTokens) return few_tokens_task(args, output_begin, output_end, workspace);

  float* const yt = workspace + plan.panels_per_task * in_dim * kMaxPanelWidth<float>;
  const auto for_each_panel = [&](const auto& step) {
    for (Index p = panel_begin; p < panel_end; ++p) {
      const PanelCut cut = cut_panel<float>(num_tokens, p);
      step(cut, round_up(cut.count, kLanes<float>), workspace + (p - panel_begin) * in_dim * kMaxPanelWidth<float>);
    }
  };
  const Index x_stride = args.x.stride(0), w_stride = args.weight.stride(0), block = block_rows(in_dim);
  for_each_panel([&](PanelCut cut, Index width, float* panel) {
    pack_panel(args.x.data() + cut.first * x_stride, x_stride, cut.count, in_dim, panel, width);
  });
  for (Index output = output_begin; output < output_end; output += block) {
    const Index rows = std::min(block, output_end - output);
    for_each_panel([&](PanelCut cut, Index width, const float* panel) {
      with_vectors<float>(width, [&]<int kVectors>() {
        multiply_rows<kVectors>(args.weight.data() + output * w_stride, w_stride, rows, panel, in_dim, yt);
      });
      write_outputs(args, cut.first, cut.count, output, rows, width, yt);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace qkv::kernels {

HWY_EXPORT(plan);
HWY_EXPORT(task);

LinearPlan plan_linear(Index num_tokens, Index in_dim, Index out_dim) {
  apply_target_cap();
  return HWY_DYNAMIC_DISPATCH(plan)(num_tokens, in_dim, out_dim);
}

void linear_task(const LinearArgs& args, const LinearPlan& plan, Index task_index, float* workspace) {
  HWY_DYNAMIC_DISPATCH(task)(args, plan, task_index, workspace);
}

}  // namespace qkv::kernels

#endif  // HWY_ONCE
