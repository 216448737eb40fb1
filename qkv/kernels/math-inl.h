// Elementary functions on vectors of float and of double (erf: float). Coefficients: tools/fit_polynomials.py.

#if defined(QKV_KERNELS_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_KERNELS_MATH_INL_H_
#undef QKV_KERNELS_MATH_INL_H_
#else
#define QKV_KERNELS_MATH_INL_H_
#endif

#include <iterator>

#include "hwy/highway.h"
#include "qkv/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::kernels {
namespace HWY_NAMESPACE {

template <class T>
inline constexpr T kLog2E = static_cast<T>(1.442695040888963407);
inline constexpr double kLn2 = 0.693147180559945309;

/// The larger of `bound` and v, NaN where v is NaN. (Highway leaves it open which operand of Max survives a NaN; on x86
/// the second does.)
template <class D, class V>
HWY_INLINE V max_keep_nan(D, V bound, V v) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  return hn::Max(bound, v);
#else
  return hn::IfThenElse(hn::Lt(v, bound), bound, v);
#endif
}

/// The smaller of `bound` and v, NaN where v is NaN.
template <class D, class V>
HWY_INLINE V min_keep_nan(D, V bound, V v) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  return hn::Min(bound, v);
#else
  return hn::IfThenElse(hn::Lt(bound, v), bound, v);
#endif
}

/// Horner's rule, coefficients in ascending order.
template <class D, int kTerms>
HWY_INLINE hn::Vec<D> polynomial(D d, hn::Vec<D> x, const hn::TFromD<D> (&coefficients)[kTerms]) {
  auto sum = hn::Set(d, coefficients[kTerms - 1]);
#pragma GCC unroll 16
  for (int n = kTerms - 2; n >= 0; --n) sum = hn::MulAdd(sum, x, hn::Set(d, coefficients[n]));
  return sum;
}

/// What exp2_or_zero() and tanh() need to know of a type.
template <class T>
struct MathConstants;

template <>
struct MathConstants<float> {
  static constexpr int kMantissaBits = 23, kExponentBias = 127;
  static constexpr float kRounder = 0x1.8p23f;
  static constexpr float kExp2[] = {
      1, 0x1.62e430p-1f, 0x1.ebfbdap-3f, 0x1.c6aed4p-5f, 0x1.3b2dbcp-7f, 0x1.5f456ap-10f, 0x1.41d334p-13f};
  /// 2^f for f from 0 to 1
  static constexpr float kExp2OfFraction[] = {
      1, 0x1.62e42cp-1f, 0x1.ebfd58p-3f, 0x1.c68912p-5f, 0x1.3d0b92p-7f, 0x1.46d64ep-10f, 0x1.c54174p-13f};
  static constexpr float kTanhSaturated = 10.0f;  // tanh is 1 in float from 9.02 on
  /// tanh(x) / x - 1 = numerator(x^2) / denominator(x^2) for small |x|
  static constexpr float kTanhNumerator[] = {
      0, -0x1.555526p-2f, 0x1.1105cep-3f, -0x1.b81dfap-5f, 0x1.518fe0p-6f, -0x1.73bf84p-8f};
  static constexpr float kTanhDenominator[] = {1};  // none
};

template <>
struct MathConstants<double> {
  static constexpr int kMantissaBits = 52, kExponentBias = 1023;
  static constexpr double kRounder = 0x1.8p52;
  static constexpr double kExp2[] = {1,
                                     0x1.62e42fefa39efp-1,
                                     0x1.ebfbdff82c598p-3,
                                     0x1.c6b08d704a0c2p-5,
                                     0x1.3b2ab6fba1ddap-7,
                                     0x1.5d87fe78a5276p-10,
                                     0x1.430913096fd9fp-13,
                                     0x1.ffcbfc670dcd4p-17,
                                     0x1.62bfd47773353p-20,
                                     0x1.b524fae627834p-24,
                                     0x1.e6063f7217bc6p-28,
                                     0x1.e9d3fe3952179p-32};
  static constexpr double kExp2OfFraction[] = {1,
                                               0x1.62e42fefa39efp-1,
                                               0x1.ebfbdff82c4ffp-3,
                                               0x1.c6b08d704fa4fp-5,
                                               0x1.3b2ab6fa48563p-7,
                                               0x1.5d87fecf83f7bp-10,
                                               0x1.4309065c8357ap-13,
                                               0x1.ffce434c232f0p-17,
                                               0x1.629e703ac7f08p-20,
                                               0x1.b7a2459dca29cp-24,
                                               0x1.c7ea67ee59ebfp-28,
                                               0x1.509edf2ecfdf8p-31};
  static constexpr double kTanhSaturated = 20.0;  // tanh is 1 in double from 19.1 on
  /// Lambert's continued fraction x / (1 + x^2 / (3 + x^2 / (5 + ...))), cut after 15: off by 6e-18.
  static constexpr double kTanhNumerator[] = {0, -675675, -45045, -594, -1};
  static constexpr double kTanhDenominator[] = {2027025, 945945, 51975, 630, 1};
};

/// Below this 2^t would be denormal.
template <class T>
inline constexpr T kLowestExponent = 1 - MathConstants<T>::kExponentBias;

#if HWY_TARGET == HWY_AVX3
/// exp2_or_zero() by the instructions that AVX-512 has for it: t - floor(t), and p * 2^floor(t). On Sapphire Rapids 5.7 cycles a vector
/// where the other way takes 8.0.
HWY_INLINE hn::Vec<Tag<float>> exp2_avx512(Tag<float> d, hn::Vec<Tag<float>> t, float lowest) {
  const auto p = polynomial(d, hn::Vec<Tag<float>>{_mm512_reduce_ps(t.raw, _MM_FROUND_TO_NEG_INF)},
                            MathConstants<float>::kExp2OfFraction);
  const __mmask16 is_not_low = _mm512_cmp_ps_mask(t.raw, _mm512_set1_ps(lowest), _CMP_NLT_UQ);
  return {_mm512_maskz_scalef_ps(is_not_low, p.raw, t.raw)};
}
HWY_INLINE hn::Vec<Tag<double>> exp2_avx512(Tag<double> d, hn::Vec<Tag<double>> t, double lowest) {
  const auto p = polynomial(d, hn::Vec<Tag<double>>{_mm512_reduce_pd(t.raw, _MM_FROUND_TO_NEG_INF)},
                            MathConstants<double>::kExp2OfFraction);
  const __mmask8 is_not_low = _mm512_cmp_pd_mask(t.raw, _mm512_set1_pd(lowest), _CMP_NLT_UQ);
  return {_mm512_maskz_scalef_pd(is_not_low, p.raw, t.raw)};
}
#endif

/// 2^t for t <= 127: error below 1 ulp (1.2 on targets without FMA, 1.1 on AVX-512), exactly 0 for t < lowest (-inf included) and
/// exactly 1 at 0; NaN stays NaN. In double the same with 1023 for 127. 2^t = 2^n 2^f with n the nearest integer and |f| <= 1/2. Adding
/// 1.5 * 2^23 (2^52) rounds to an integer and leaves it in the low bits. The polynomial's first coefficient is 1. Degree 6 costs 0.7 % of a
/// forward call at head_dim 64 over degree 5, whose error is 2.8 ulp.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> exp2_or_zero(D d, hn::Vec<D> t, T lowest = kLowestExponent<T>) {
#if HWY_TARGET == HWY_AVX3
  return exp2_avx512(d, t, lowest);
#else
  using Constants = MathConstants<T>;
  const hn::RebindToSigned<D> di;
  const auto rounder = hn::Set(d, Constants::kRounder);
  const auto shifted = hn::Add(t, rounder);
  const auto f = hn::Sub(t, hn::Sub(shifted, rounder));
  const auto exponent = hn::Add(hn::BitCast(di, shifted), hn::Set(di, Constants::kExponentBias));
  const auto power = hn::BitCast(d, hn::ShiftLeft<Constants::kMantissaBits>(exponent));
  const auto result = hn::Mul(polynomial(d, f, Constants::kExp2), power);  // a product, so that NaN stays NaN
  return hn::IfThenZeroElse(hn::Lt(t, hn::Set(d, lowest)), result);
#endif
}

/// tanh(x), relative error below 3 ulp. The 1 of tanh(x) / x is added as x itself: as part of the fraction its roundings cost 3.2 ulp in double.
template <class D>
HWY_INLINE hn::Vec<D> tanh(D d, hn::Vec<D> x) {
  using T = hn::TFromD<D>;
  using Constants = MathConstants<T>;
  constexpr auto kTwoLog2E = static_cast<T>(2.885390081777926815);
  constexpr auto kSmall = static_cast<T>(0.625);  // below: a fraction or polynomial, as 1 - 2/(e^2x + 1) cancels
  const auto one = hn::Set(d, T{1}), magnitude = hn::Abs(x);
  const auto saturated = hn::Set(d, Constants::kTanhSaturated);
  const auto power = exp2_or_zero(d, hn::Mul(hn::Set(d, kTwoLog2E), hn::Min(magnitude, saturated)));
  const auto large = hn::Sub(one, hn::Div(hn::Set(d, T{2}), hn::Add(power, one)));
  const auto square = hn::Mul(x, x);
  auto change = polynomial(d, square, Constants::kTanhNumerator);
  if constexpr (std::size(Constants::kTanhDenominator) > 1)
    change = hn::Div(change, polynomial(d, square, Constants::kTanhDenominator));
  const auto small = hn::MulAdd(x, change, x);
  const auto result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, kSmall)), small, hn::CopySign(large, x));
  return hn::IfThenElse(hn::Eq(x, x), result, x);
}

/// erf(x), absolute error below 1.2e-7.
template <class D>
HWY_INLINE hn::Vec<D> erf(D d, hn::Vec<D> x) {
  constexpr float kSaturated = 4.0f;  // erf is 1 in float from 3.92 on
  // erf(x) / x - 1: the 1 is added as x itself, since 2/sqrt(pi) rounded to float would cost half an ulp
  constexpr float kNear[] = {0x1.06eba8p-3f, -0x1.812746p-2f,  0x1.ce2f0ap-4f,  -0x1.b829d8p-6f,
                             0x1.562b1ap-8f, -0x1.bcd7e0p-11f, 0x1.d8b890p-14f, -0x1.44cfc6p-17f};
  // -log2(1 - erf(x)) on [1, 4]
  constexpr float kFar[] = {-0x1.3525d2p-12f, 0x1.a137bap+0f,   0x1.d399dap-1f,  0x1.40fd2ep-3f,  -0x1.2be0eap-5f,
                            0x1.94e446p-8f,   -0x1.5ecd1ap-11f, 0x1.325bcep-15f, -0x1.854490p-22f};
  const auto one = hn::Set(d, 1.0f), magnitude = hn::Min(hn::Abs(x), hn::Set(d, kSaturated));
  const auto far = hn::Sub(one, exp2_or_zero(d, hn::Neg(polynomial(d, magnitude, kFar))));
  const auto near = hn::MulAdd(x, polynomial(d, hn::Mul(x, x), kNear), x);
  const auto result = hn::IfThenElse(hn::Lt(magnitude, one), near, hn::CopySign(far, x));
  return hn::IfThenElse(hn::Eq(x, x), result, x);
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::kernels
HWY_AFTER_NAMESPACE();

#endif  // QKV_KERNELS_MATH_INL_H_
