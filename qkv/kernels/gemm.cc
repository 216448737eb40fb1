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

// One side of the product, the tokens or the outputs, lies in lanes: a task packs some panels of it once (unless tokens are few, see kFewTokens), then walks
// the rows of the other side in blocks, each block against every panel:
//   for each block of rows (in L2)    for each panel    tile = rows x panel -> bias, activation -> y
// With outputs in lanes a tile is a piece of y, and is written as it comes out of the registers; with tokens in lanes it is one of y^T.
constexpr Index kMaxPanelsPerTask = 2;  // of 1 to 8: more push rows out of L2 where in_dim is large
// Packing a panel costs as much as 12 or so rows: a task should have many, if there are enough tasks without cutting them.
constexpr Index kMaxRowsPerTask = 768, kMinRowsPerTask = 96;
constexpr Index kEnoughTasks = 8;  // for a few threads to share evenly
constexpr Index kRowStep = 24;     // whole tiles of 12, 6, 4 or 8 rows; of 16 rows and 8
// Up to this many tokens would leave most lanes of a panel empty; then the lanes run along in_dim instead, and what is left is reading the
// weights once.
constexpr Index kFewTokens = std::min<Index>(4, kLanes<float>);

// Rows in a block. Of weights 192 KiB, less than half of a 512 KiB L2: they may come from memory, and of many rows side by side no prefetching gets hold
// (16 tokens, 768 -> 3072: 96 rows were 10 % slower than 48). Tokens are few enough to lie near; for each block of them the panel is read again
// (512 tokens, 1536 -> 384: 24 rows were 10 % slower than 96).
Index block_rows(bool outputs_in_lanes, Index in_dim) {
  constexpr Index kMaxSteps = 4, kBlockFloats = Index{48} * 1024;
  return kRowStep * (outputs_in_lanes ? kMaxSteps : std::clamp<Index>(kBlockFloats / in_dim / kRowStep, 1, kMaxSteps));
}

// How many pieces each side is cut into.
struct Cuts {
  Index panels, rows;
};

Cuts cut(Index num_panels, Index num_rows) {
  Cuts cuts{ceil_div(num_panels, kMaxPanelsPerTask), ceil_div(num_rows, kMaxRowsPerTask)};
  cuts.panels = std::max(cuts.panels, std::min(num_panels, ceil_div(kEnoughTasks, cuts.rows)));
  cuts.rows = std::max(cuts.rows, std::min(num_rows / kMinRowsPerTask, ceil_div(kEnoughTasks, cuts.panels)));
  return cuts;
}

// What a product costs, in multiply-adds, with num_lanes rows of one side in lanes, against num_rows of the other; transposed_rows is num_rows where y has to be
// transposed, else 0. By measurement an element moved into a panel or out of one costs as much as 12 products, four times that where its vector
// is not full, and to transpose is to move twice.
double cost(Index num_lanes, Index num_rows, Index in_dim, Index transposed_rows) {
  constexpr double kMove = 12, kPartMove = 4 * kMove;
  const Index left = num_lanes % kLanes<float>, repeats = cut(count_panels<float>(num_lanes), num_rows).rows;
  const double products =
      static_cast<double>(round_up(num_lanes, kLanes<float>) * num_rows) * static_cast<double>(in_dim);
  const double moves_per_row = static_cast<double>(num_lanes - left) * kMove + static_cast<double>(left) * kPartMove;
  return products + moves_per_row * static_cast<double>(repeats * in_dim + 2 * transposed_rows);
}

LinearPlan plan(Index num_tokens, Index in_dim, Index out_dim) {
  LinearPlan plan;
  if (num_tokens == 0 || out_dim == 0) return plan;
  plan.outputs_in_lanes =
      num_tokens > kFewTokens && cost(out_dim, num_tokens, in_dim, 0) < cost(num_tokens, out_dim, in_dim, out_dim);
  const Index num_panels = count_panels<float>(plan.outputs_in_lanes ? out_dim : num_tokens);
  const Index num_rows = plan.outputs_in_lanes ? num_tokens : out_dim;
  const Cuts cuts = cut(num_panels, num_rows);
  plan.panels_per_task = ceil_div(num_panels, cuts.panels);
  plan.rows_per_task = round_up(ceil_div(num_rows, cuts.rows), kRowStep);
  plan.num_tasks = ceil_div(num_panels, plan.panels_per_task) * ceil_div(num_rows, plan.rows_per_task);
  const Index packed_rows = num_tokens <= kFewTokens ? 0 : plan.panels_per_task * in_dim;
  // Every worker's share begins on a cache line.
  plan.workspace_floats =
      round_up((packed_rows + block_rows(plan.outputs_in_lanes, in_dim)) * kMaxPanelWidth<float>, kLineElements<float>);
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

// What a task computes at once: tokens x outputs of y.
struct Piece {
  Index first_token, num_tokens, first_output, num_outputs;
};

float* y_of(const LinearArgs& args, const Piece& piece) {
  return args.y.data() + piece.first_token * args.y.stride(0) + piece.first_output;
}

// A piece of y out of y^T [num_outputs][width], with bias and activation.
HWY_NOINLINE void write_transposed(const LinearArgs& args, const Piece& piece, Index width,
                                   const float* HWY_RESTRICT yt) {
  const F32 d;
  unpack_panel(yt, width, piece.num_tokens, piece.num_outputs, y_of(args, piece), args.y.stride(0),
               [&](Index r, VecF32 v) {
                 if (args.bias) v = hn::Add(v, hn::Set(d, args.bias[piece.first_output + r]));
                 return activate(d, v, args.activation);
               });
}

// Stores the first `count` lanes of v, or all if there are fewer.
HWY_INLINE void store_lanes(VecF32 v, float* HWY_RESTRICT to, Index count) {
  if (count >= kLanes<float>) return hn::StoreU(v, F32(), to);
  HWY_ALIGN float lanes[kLanes<float>];
  hn::Store(v, F32(), lanes);
  std::copy_n(lanes, count, to);
}

// The epilogue with outputs in lanes: adds the bias and writes the first num_outputs lanes to y.
template <int kVectors>
struct WriteRows {
  float* y;  // of the first row and the panel's first output
  Index stride, num_outputs;
  const float* bias;  // [kVectors * kLanes]
  float* out;         // the sums of deep products so far, see multiply_rows
  const float* partial = nullptr;
  Prefetch<float>* prefetch = nullptr;  // to fetch the rows that come next cost 4 %

  template <int kFirst, int kRows>
  HWY_INLINE void operator()(Index first, VecF32 (&sums)[kRows][kVectors]) const {
    constexpr Index kLane = kLanes<float>;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      float* HWY_RESTRICT const row = y + (first + r) * stride;
#pragma GCC unroll 4
      for (int v = kFirst; v < kVectors; ++v)
        store_lanes(hn::Add(sums[r][v], hn::Load(F32(), bias + v * kLane)), row + v * kLane, num_outputs - v * kLane);
    }
  }
};

// y = activation(y).
HWY_NOINLINE void activate_rows(const LinearArgs& args, const Piece& piece) {
  const F32 d;
  for (Index t = 0; t < piece.num_tokens; ++t) {
    float* const y = y_of(args, piece) + t * args.y.stride(0);
    for (Index i = 0; i < piece.num_outputs; i += kLanes<float>) {
      HWY_ALIGN float lanes[kLanes<float>] = {};
      const Index count = std::min(kLanes<float>, piece.num_outputs - i);
      std::copy_n(y + i, count, lanes);
      store_lanes(activate(d, hn::Load(d, lanes), args.activation), y + i, count);
    }
  }
}

// A piece of y = rows of x times a panel of weights.
template <int kVectors>
HWY_INLINE void compute_rows(const LinearArgs& args, const Piece& piece, const float* panel, float* sums) {
  HWY_ALIGN float bias[kMaxPanelWidth<float>];
  std::fill(std::begin(bias), std::end(bias), -0.0f);  // changes no sum, not even -0
  if (args.bias) std::copy_n(args.bias + piece.first_output, piece.num_outputs, bias);
  WriteRows<kVectors> epilogue{y_of(args, piece), args.y.stride(0), piece.num_outputs, bias, sums};
  const Index stride = args.x.stride(0);
  multiply_rows<kVectors>(args.x.data() + piece.first_token * stride, stride, 0, piece.num_tokens, panel,
                          args.x.shape(1), epilogue);
  if (args.activation != Activation::kNone) activate_rows(args, piece);
}

// A piece of y, transposed, = rows of weights times a panel of tokens.
template <int kVectors>
HWY_INLINE void compute_transposed(const LinearArgs& args, const Piece& piece, const float* panel, float* yt) {
  const Index stride = args.weight.stride(0);
  multiply_rows<kVectors>(args.weight.data() + piece.first_output * stride, stride, piece.num_outputs, panel,
                          args.x.shape(1), yt);
  write_transposed(args, piece, kVectors * kLanes<float>, yt);
}

// The sum of the lanes of each v. Transposing adds four at a time: one by one they cost a layer of 384 -> 1536 a fifth of its time.
template <int kCount>
HWY_INLINE void sum_lanes(const VecF32 (&v)[kCount], float (&sums)[kCount]) {
  static_assert(kCount % 4 == 0);
#pragma GCC unroll 4
  for (int i = 0; i < kCount; i += 4) {
#if HWY_TARGET == HWY_SCALAR
    for (int n = i; n < i + 4; ++n) sums[n] = hn::GetLane(v[n]);
#else
    const F32 d;
    VecF32 four[4] = {v[i], v[i + 1], v[i + 2], v[i + 3]};
    transpose_blocks(d, four);
    add_blocks(d, hn::Add(hn::Add(four[0], four[1]), hn::Add(four[2], four[3])), sums + i);
#endif
  }
}

// Weight rows that are read at once: with 16 registers far apart, each the beginning of a stream of rows that the processor itself fetches ahead (768 -> 3072
// out of memory, Zen 3, 1 and 4 tokens: 1.39 times as fast as side by side, with the next ones asked for; asking, too, took back 15 and 3 %),
// with 32 side by side, and the next ones asked for (94 and 85 % of read bandwidth on Emerald Rapids).
constexpr bool kReadsStreams = !kHas32Registers;

// yt[r][t] = w_r . x_t for the rows first, first + step, .. of the block, kRows of them, and all kTokens tokens.
template <int kRows, int kTokens>
HWY_INLINE void dot_rows(const LinearArgs& args, Index first_output, Index first, Index step, Index width,
                         float* HWY_RESTRICT yt) {
  const F32 d;
  const Index in_dim = args.x.shape(1);
  const float *w[kRows], *x[kTokens];
  for (int n = 0; n < kRows; ++n) w[n] = args.weight.data() + (first_output + first + n * step) * args.weight.stride(0);
  for (int t = 0; t < kTokens; ++t) x[t] = args.x.data() + t * args.x.stride(0);
  constexpr int kSums = round_up(kRows * kTokens, 4);
  VecF32 lane_sums[kSums];  // [kRows][kTokens], and zeros
  for (auto& v : lane_sums) v = hn::Zero(d);
  // The rows that come next, if any: their beginnings are where the processor's own prefetching has to start anew.
  const bool are_last = first_output + first + 2 * kRows > args.weight.shape(0);
  const Index to_next_rows = are_last ? 0 : kRows * args.weight.stride(0);
  Index c = 0;
  for (; c + kLanes<float> <= in_dim; c += kLanes<float>) {
    if (!kReadsStreams && c % kLineElements<float> == 0)
      for (int n = 0; n < kRows; ++n) __builtin_prefetch(w[n] + to_next_rows + c, 0, 2);
    VecF32 tokens[kTokens];
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) tokens[t] = hn::LoadU(d, x[t] + c);
#pragma GCC unroll 4
    for (int n = 0; n < kRows; ++n) {
      const auto weights = hn::LoadU(d, w[n] + c);
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t)
        lane_sums[n * kTokens + t] = hn::MulAdd(weights, tokens[t], lane_sums[n * kTokens + t]);
    }
  }
  float sums[kSums];
  sum_lanes(lane_sums, sums);
  for (int n = 0; n < kRows; ++n) {
    for (int t = 0; t < kTokens; ++t) {
      float sum = sums[n * kTokens + t];
      for (Index rest = c; rest < in_dim; ++rest) sum += w[n][rest] * x[t][rest];
      yt[(first + n * step) * width + t] = sum;
    }
  }
}

// Some weight rows against all kTokens tokens.
template <int kTokens>
HWY_NOINLINE void few_token_outputs(const LinearArgs& args, Index first_output, Index rows, Index width, float* yt) {
  // Four streams, even where their 16 sums do not fit into 16 registers (1.06 times as fast as two). In 32 registers 12 sums, of 3 tokens, were 6 % slower than 6.
  constexpr int kRows = kReadsStreams || kTokens != 3 ? 4 : 2;
  std::fill_n(yt, rows * width, 0.0f);
  const Index turns = rows / kRows, step = kReadsStreams ? turns : 1;
  for (Index turn = 0; turn < turns; ++turn)
    dot_rows<kRows, kTokens>(args, first_output, kReadsStreams ? turn : turn * kRows, step, width, yt);
  for (Index r = turns * kRows; r < rows; ++r) dot_rows<1, kTokens>(args, first_output, r, 1, width, yt);
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
  const Index num_tokens = args.x.shape(0), width = round_up(num_tokens, kLanes<float>);
  const Index block = block_rows(false, args.x.shape(1));
  for (Index output = output_begin; output < output_end; output += block) {
    const Index rows = std::min(block, output_end - output);
    few_token_outputs(args, output, rows, width, yt);
    write_transposed(args, {0, num_tokens, output, rows}, width, yt);
  }
}

void task(const LinearArgs& args, const LinearPlan& plan, Index task_index, float* workspace) {
  const CView<2>&lanes = plan.outputs_in_lanes ? args.weight : args.x,
        &rows = plan.outputs_in_lanes ? args.x : args.weight;
  const Index in_dim = args.x.shape(1), num_panels = count_panels<float>(lanes.shape(0));
  // All panels by some rows before the next rows: neighbours share rows, and of the cuts of panels the last is smaller.
  const Index panel_cuts = ceil_div(num_panels, plan.panels_per_task);
  const Index panel_begin = task_index % panel_cuts * plan.panels_per_task;
  const Index panel_end = std::min(panel_begin + plan.panels_per_task, num_panels);
  const Index row_begin = task_index / panel_cuts * plan.rows_per_task;
  const Index row_end = std::min(row_begin + plan.rows_per_task, rows.shape(0));
  if (args.x.shape(0) <= kFewTokens) return few_tokens_task(args, row_begin, row_end, workspace);

  float* const tile = workspace + plan.panels_per_task * in_dim * kMaxPanelWidth<float>;
  const auto for_each_panel = [&](const auto& step) {
    for (Index p = panel_begin; p < panel_end; ++p) {
      const PanelCut cut = cut_panel<float>(lanes.shape(0), p);
      step(cut, round_up(cut.count, kLanes<float>), workspace + (p - panel_begin) * in_dim * kMaxPanelWidth<float>);
    }
  };
  for_each_panel([&](PanelCut cut, Index width, float* panel) {
    pack_panel(lanes.data() + cut.first * lanes.stride(0), lanes.stride(0), cut.count, in_dim, panel, width);
  });
  const Index block = block_rows(plan.outputs_in_lanes, in_dim);
  for (Index row = row_begin; row < row_end; row += block) {
    const Index num_rows = std::min(block, row_end - row);
    for_each_panel([&](PanelCut cut, Index width, const float* panel) {
      with_vectors<float>(width, [&]<int kVectors>() {
        if (plan.outputs_in_lanes)
          compute_rows<kVectors>(args, {row, num_rows, cut.first, cut.count}, panel, tile);
        else
          compute_transposed<kVectors>(args, {cut.first, cut.count, row, num_rows}, panel, tile);
      });
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
