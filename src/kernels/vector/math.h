// SPDX-License-Identifier: Apache-2.0
// Elementary functions on vectors. Polynomials and rationals are minimax fits (relative error below
// 2e-8 in exact arithmetic); the bounds stated are maxima measured against double by math_test over
// the whole range. NaN gives NaN.
#pragma once

#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

inline constexpr float kLog2E = 1.44269504088896341f;
inline constexpr float kLn2High = 0.693359375f;  // 9 bits: n * kLn2High is exact
inline constexpr float kLn2Low = -2.12194440054690583e-4f;
inline constexpr float kInfinity = __builtin_inff();

// c[0] + c[1] t + … by Horner's rule.
template <int kCount>
CAMSHAFT_INLINE F32 polynomial(F32 t, const float (&c)[kCount]) {
  F32 sum = set1(c[kCount - 1]);
#pragma GCC unroll 16
  for (int k = kCount - 2; k >= 0; --k) sum = fma(sum, t, set1(c[k]));
  return sum;
}

// (e^r - 1 - r) / r² for |r| ≤ ln2/2.
inline constexpr float kExpCoefficients[] = {0.5f, 0.16666576266288757f, 0.04166685417294502f,
                                             0.008363200351595879f, 0.001390130608342588f};

// e^r - 1 for |r| ≤ ln2/2.
CAMSHAFT_INLINE F32 exp_fraction(F32 r) {
  return fma(r * r, polynomial(r, kExpCoefficients), r);
}

// x = n ln2 + r with |r| ≤ ln2/2; gives e^r - 1 and n.
struct ExpParts {
  F32 fraction, n;
};
CAMSHAFT_INLINE ExpParts exp_parts(F32 x) {
  const F32 n = round_even(x * set1(kLog2E));
  const F32 r = fnma(n, set1(kLn2Low), fnma(n, set1(kLn2High), x));
  return {exp_fraction(r), n};
}

// ≤ 1 ulp (denormal results: 1 unit of the last place).
CAMSHAFT_INLINE F32 exp(F32 x) {
  x = min(set1(89.0f), max(set1(-104.0f), x));
  const ExpParts parts = exp_parts(x);
  return scale_by_power(parts.fraction + set1(1), parts.n);
}

// e^x - 1, ≤ 2 ulp, small x kept. Overflows to infinity from 88.4 on (half a binade early).
CAMSHAFT_INLINE F32 expm1(F32 x) {
  const F32 clamped = min(set1(88.4f), max(set1(-20.0f), x));
  const ExpParts parts = exp_parts(clamped);
  const F32 power = scale_by_power(set1(1), parts.n);
  const F32 result = fma(power, parts.fraction, power - set1(1));
  return select(less(set1(88.4f), x), set1(kInfinity), result);
}

// Natural logarithm, ≤ 2 ulp; log(0) = -inf, negative: NaN; denormals are numbers.
CAMSHAFT_INLINE F32 log(F32 x) {
  constexpr float kCoefficients[] = {
      0.3333333134651184f,   -0.24999994039535522f, 0.2000071406364441f,
      -0.16668057441711426f, 0.14249321818351746f,  -0.12420149147510529f,
      0.11677011847496033f,  -0.11514559388160706f, 0.07037585973739624f};
  constexpr int32_t kSqrtHalfBits = 0x3f3504f3;
  const M32 tiny = less(x, set1(1.17549435e-38f));
  const I32 bits = bits_as_int(select(tiny, x * set1(8388608.0f), x));
  const I32 exponent = shift_right_arithmetic<23>(bits - iset1(kSqrtHalfBits));
  const F32 f =
      bits_as_float(bits - shift_left<23>(exponent)) - set1(1);  // in [sqrt(1/2) - 1, sqrt(2) - 1)
  const F32 n = to_float(exponent) - select(tiny, set1(23), zero());
  const F32 square = f * f;
  F32 low = f * square * polynomial(f, kCoefficients);
  low = fma(n, set1(kLn2Low), low);
  low = fma(square, set1(-0.5f), low);
  F32 result = fma(n, set1(kLn2High), f + low);
  result = select(less(x, zero()), set1(__builtin_nanf("")), result);
  result = select(equal(x, zero()), set1(-kInfinity), result);
  return select(less(x, set1(kInfinity)), result, x);  // infinity and NaN as they are
}

// log(1 + t) for t in [0, 1], ≤ 2 ulp.
CAMSHAFT_INLINE F32 log1p_unit(F32 t) {
  constexpr float kCoefficients[] = {1.0f,
                                     -0.4999990165233612f,
                                     0.3332996368408203f,
                                     -0.24954132735729218f,
                                     0.19675931334495544f,
                                     -0.15305569767951965f,
                                     0.10603617131710052f,
                                     -0.056959159672260284f,
                                     0.019851261749863625f,
                                     -0.0032439809292554855f};
  return t * polynomial(t, kCoefficients);
}

// log(1 + e^x), ≤ 3 ulp.
CAMSHAFT_INLINE F32 softplus(F32 x) {
  return max(zero(), x) + log1p_unit(exp(neg(abs(x))));
}

// 1 + e^-x for |x| ≤ kMostLogistic, where e^-x and its factor 2^n are normal: the bits of
// n + 127 + 1.5 2^23 moved up are those of 2^n.
inline constexpr float kMostLogistic = 87.3f;
CAMSHAFT_INLINE F32 logistic_divisor(F32 x) {
  constexpr float kCoefficients[] = {0.5f, -0.16666576266288757f, 0.04166685417294502f,
                                     -0.008363200351595879f, 0.001390130608342588f};
  const F32 biased = set1(12582912.0f + 127);
  const F32 shifted = fnma(x, set1(kLog2E), biased), n = shifted - biased;
  const F32 r = fma(n, set1(kLn2Low), fma(n, set1(kLn2High), x));  // e^-x = 2^n e^-r
  const F32 power = bits_as_float(shift_left<23>(bits_as_int(shifted)));
  const F32 missing = fnma(r * r, polynomial(r, kCoefficients), r);  // 1 - e^-r
  return fnma(missing, power, power + set1(1));
}

// ≤ 3 ulp above -87.3; below it is 1.2e-38 (true: less). NaN is the second operand, and stays.
CAMSHAFT_INLINE F32 sigmoid(F32 x) {
  return set1(1) / logistic_divisor(min(set1(kMostLogistic), max(set1(-kMostLogistic), x)));
}

// Rational in x², ≤ 6 ulp (3e-7: four roundings, and steps just below 1 are halves).
CAMSHAFT_INLINE F32 tanh(F32 x) {
  constexpr float kNumerator[] = {1.0f, 0.1337973177433014f, 0.0034940498881042004f,
                                  2.0583700461429544e-05f, 1.3319318092896992e-08f};
  constexpr float kDenominator[] = {1.0f, 0.4671304523944855f, 0.02587113343179226f,
                                    0.0003283116384409368f, 7.762131986055465e-07f};
  const F32 clamped = min(set1(9.02f), max(set1(-9.02f), x));
  const F32 square = clamped * clamped;
  const F32 result = clamped * polynomial(square, kNumerator) / polynomial(square, kDenominator);
  return min(set1(1), max(set1(-1), result));
}

// Rational in x², ≤ 6 ulp.
CAMSHAFT_INLINE F32 erf(F32 x) {
  constexpr float kNumerator[] = {1.1283791065216064f,     0.19078293442726135f,
                                  0.05279001593589783f,    0.003779521444812417f,
                                  0.00028479844331741333f, 2.0418763142515672e-06f};
  constexpr float kDenominator[] = {1.0f,
                                    0.5024096965789795f,
                                    0.11425700783729553f,
                                    0.014997278340160847f,
                                    0.0011651754612103105f,
                                    3.800255217356607e-05f};
  const F32 clamped = min(set1(3.93f), max(set1(-3.93f), x));
  const F32 square = clamped * clamped;
  const F32 result = clamped * polynomial(square, kNumerator) / polynomial(square, kDenominator);
  return min(set1(1), max(set1(-1), result));
}

// ≤ 4 ulp above -87.3; below it is -1.1e-36 (true: nearer to 0).
CAMSHAFT_INLINE F32 silu(F32 x) {
  const F32 above = max(set1(-kMostLogistic), x);
  return above / logistic_divisor(min(set1(kMostLogistic), above));
}
// Absolute error ≤ 2e-7 max(1, |x|): 1 + erf cancels for negative x, as in every float form of the
// definition.
CAMSHAFT_INLINE F32 gelu(F32 x) {
  const F32 half = x * set1(0.5f);
  return fma(half, erf(x * set1(0.70710678118654752f)), half);
}
CAMSHAFT_INLINE F32 gelu_tanh(F32 x) {  // 0.5 x (1 + tanh u) = x sigmoid(2u)
  const F32 v = max(set1(-16.0f), x);   // there 2u is -kMostLogistic and less
  const F32 u = v * fma(v * v, set1(0.044715f * 1.5957691216057308f), set1(1.5957691216057308f));
  return v / logistic_divisor(min(set1(kMostLogistic), max(set1(-kMostLogistic), u)));
}
CAMSHAFT_INLINE F32 mish(F32 x) {  // tanh(log(1 + e)) = (e² + 2e) / (e² + 2e + 2)
  const F32 e = exp(min(set1(30.0f), x));
  const F32 p = e * (e + set1(2));
  return x * (p / (p + set1(2)));
}
CAMSHAFT_INLINE F32 hard_sigmoid(F32 x, F32 alpha, F32 beta) {
  return min(set1(1), max(zero(), fma(x, alpha, beta)));
}
CAMSHAFT_INLINE F32 hard_swish(F32 x) {
  return x * hard_sigmoid(x, set1(1.0f / 6.0f), set1(0.5f));
}

// x - q pi/2 for integral q. The three parts need fused operations; plain C++ takes double instead.
CAMSHAFT_INLINE F32 reduce_half_pi(F32 x, F32 q) {
#if !defined(CAMSHAFT_HAS_FMA)
  for (int k = 0; k < kLanes; ++k)
    x.v[k] = static_cast<float>(x.v[k] - q.v[k] * 1.57079632679489661923);
  return x;
#else
  constexpr float kHalfPi1 = 1.57079637050628662109375f, kHalfPi2 = -4.37113900018624283e-8f,
                  kHalfPi3 = -1.71512449e-15f;
  return fnma(q, set1(kHalfPi3), fnma(q, set1(kHalfPi2), fnma(q, set1(kHalfPi1), x)));
#endif
}

// sin(x + quarter_turns * pi/2), ≤ 2 ulp for |x| ≤ 100, absolute error ≤ 1e-7 for |x| ≤ 32768
// (callers take libm beyond).
CAMSHAFT_INLINE F32 sin_shifted(F32 x, int quarter_turns) {
  constexpr float kSin[] = {-0.1666666716337204f, 0.008333331905305386f, -0.00019840076856780797f,
                            2.7248765945842024e-06f};
  constexpr float kCos[] = {0.0416666641831398f, -0.0013888298999518156f, 2.454710192978382e-05f};
  const F32 q = round_even(x * set1(0.63661977236758134f));
  const F32 r = reduce_half_pi(x, q);
  const F32 square = r * r;
  const F32 sine = fma(r * square, polynomial(square, kSin), r);
  const F32 cosine =
      fma(square * square, polynomial(square, kCos), fma(square, set1(-0.5f), set1(1)));
  const I32 quadrant = to_int(q) + iset1(quarter_turns);
  const F32 odd = bits_as_float(shift_left<31>(quadrant));   // sign bit: odd quadrant
  const F32 sign = bits_as_float(shift_left<30>(quadrant));  // sign bit: third or fourth
  const F32 value = select(less(copysign(set1(1), odd), zero()), cosine, sine);
  return select(less(copysign(set1(1), sign), zero()), neg(value), value);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
