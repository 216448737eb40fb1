#include "qkv/kernels/layer_norm.h"

#include <cmath>

#include "qkv/kernels/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/kernels/layer_norm.cc"
#include "qkv/kernels/simd_targets.h"
// simd_targets.h comes first.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "qkv/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels {
namespace HWY_NAMESPACE {

using F64 = Tag<double>;
using OneF64 = hn::CappedTag<double, 1>;  // for the end of a row
constexpr Index kStep = kLanes<double>;

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const float* p) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, D>(), p));
}

template <class D>
HWY_INLINE void store(D, hn::Vec<D> v, float* p) {
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR  // whose DemoteTo makes infinity the largest float
  for (std::size_t lane = 0; lane < hn::Lanes(D()); ++lane) p[lane] = static_cast<float>(hn::ExtractLane(v, lane));
#else
  const hn::Rebind<float, D> d;
  hn::StoreU(hn::DemoteTo(d, v), d, p);
#endif
}

// Sums of x - shift and of its square.
template <class D>
struct Moments {
  hn::Vec<D> sum, square;

  HWY_INLINE void add(hn::Vec<D> x, double shift) {
    const auto v = hn::Sub(x, hn::Set(D(), shift));
    sum = hn::Add(sum, v);
    square = hn::MulAdd(v, v, square);
  }
};

// value(tag, n): what to normalise, from element n on.
//
// One pass for both moments: with the row's first value c as the shift, variance = mean((x - c)^2) - (mean(x) - c)^2. As c is of the
// row, (mean(x) - c)^2 <= dim * variance: the difference loses log2(dim + 1) of its 53 bits at most, whatever the row.
template <class Value>
HWY_INLINE void normalise(const LayerNormArgs args, const Value& value, float* HWY_RESTRICT y) {
  const F64 d;
  const OneF64 one;
  const double shift = hn::GetLane(value(one, 0));
  // Two, so that additions need not wait for each other.
  Moments<F64> even{hn::Zero(d), hn::Zero(d)}, odd{hn::Zero(d), hn::Zero(d)};
  Moments<OneF64> rest{hn::Zero(one), hn::Zero(one)};
  Index n = 0;
  for (; n + 2 * kStep <= args.dim; n += 2 * kStep) {
    even.add(value(d, n), shift);
    odd.add(value(d, n + kStep), shift);
  }
  for (; n + kStep <= args.dim; n += kStep) even.add(value(d, n), shift);
  for (; n < args.dim; ++n) rest.add(value(one, n), shift);

  const double per_element = 1 / static_cast<double>(args.dim);
  const auto mean_of = [&](Vec<double> a, Vec<double> b, hn::Vec<OneF64> c) QKV_INLINE_LAMBDA {
    return (hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b))) + hn::GetLane(c)) * per_element;
  };
  const double change = mean_of(even.sum, odd.sum, rest.sum), mean = shift + change;
  const double variance = mean_of(even.square, odd.square, rest.square) - change * change;
  const double inverse = 1 / std::sqrt(variance + args.eps);
  const auto write = [&](auto tag, Index at) QKV_INLINE_LAMBDA {
    const auto v = hn::Mul(hn::Sub(value(tag, at), hn::Set(tag, mean)), hn::Set(tag, inverse));
    store(tag, hn::MulAdd(v, hn::LoadU(tag, args.weight + at), hn::LoadU(tag, args.bias + at)), y + at);
  };
  for (n = 0; n + kStep <= args.dim; n += kStep) write(d, n);
  for (; n < args.dim; ++n) write(one, n);
}

void row(const LayerNormArgs& args, const float* x, const float* residual, float* y) {
  const auto value = [=](auto d, Index n) QKV_INLINE_LAMBDA { return load(d, x + n); };
  const auto sum = [=](auto d, Index n) QKV_INLINE_LAMBDA { return hn::Add(load(d, x + n), load(d, residual + n)); };
  residual ? normalise(args, sum, y) : normalise(args, value, y);
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace qkv::kernels {

HWY_EXPORT(row);

void layer_norm_row(const LayerNormArgs& args, const float* x, const float* residual, float* y) {
  apply_target_cap();
  HWY_DYNAMIC_DISPATCH(row)(args, x, residual, y);
}

}  // namespace qkv::kernels

#endif  // HWY_ONCE
