// SPDX-License-Identifier: Apache-2.0
// Inverse circular functions and powers on vectors, as math.h: minimax fits, bounds measured
// against double by program_tile_test. NaN gives NaN.
#pragma once

#include "kernels/vector/math.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

inline constexpr float kHalfPi = 1.57079637f, kHalfPiLow = -4.37113883e-8f;
inline constexpr float kPi = 3.14159274f, kPiLow = -8.74227766e-8f;

// asin(x) - x for |x| ≤ 1/2; `square` is x².
CAMSHAFT_INLINE F32 asin_rest(F32 x, F32 square) {
  constexpr float kCoefficients[] = {0.16666753590106964f, 0.07495241612195969f,
                                     0.04547709971666336f, 0.024147599935531616f,
                                     0.04221856966614723f};
  return x * square * polynomial(square, kCoefficients);
}

// ≤ 2 ulp. Beyond 1/2: asin(x) = π/2 - 2 asin(√((1 - x) / 2)).
CAMSHAFT_INLINE F32 asin(F32 x) {
  const F32 size = abs(x);
  const M32 outer = less(set1(0.5f), size);
  const F32 square = select(outer, fnma(set1(0.5f), size, set1(0.5f)), x * x);
  const F32 base = select(outer, sqrt(square), size);
  const F32 angle = base + asin_rest(base, square);
  const F32 result = select(outer, fnma(set1(2), angle, set1(kHalfPi)) + set1(kHalfPiLow), angle);
  return select(less(x, zero()), neg(result), select(equal(x, zero()), x, result));
}

// ≤ 2 ulp.
CAMSHAFT_INLINE F32 acos(F32 x) {
  const F32 size = abs(x);
  const M32 outer = less(set1(0.5f), size), negative = less(x, zero());
  const F32 square = select(outer, fnma(set1(0.5f), size, set1(0.5f)), x * x);
  const F32 base = select(outer, sqrt(square), x);
  const F32 rest = asin_rest(base, square);
  const F32 inner = set1(kHalfPi) - (base - (set1(kHalfPiLow) - rest));
  const F32 twice = set1(2) * (base + rest);
  return select(outer, select(negative, set1(kPi) - (twice - set1(kPiLow)), twice), inner);
}

// ≤ 3 ulp. Beyond 1: atan(x) = π/2 - atan(1 / x).
CAMSHAFT_INLINE F32 atan(F32 x) {
  constexpr float kCoefficients[] = {
      -0.33333152532577515f, 0.19993773102760315f, -0.14211055636405945f, 0.10666003078222275f,
      -0.07552211731672287f, 0.04321182891726494f, -0.01636791042983532f, 0.002920687897130847f};
  const F32 size = abs(x);
  const M32 outer = less(set1(1), size);
  const F32 base = select(outer, set1(1) / size, size), square = base * base;
  const F32 rest = base * square * polynomial(square, kCoefficients);
  const F32 result = select(outer, set1(kHalfPi) - (base - (set1(kHalfPiLow) - rest)), base + rest);
  return select(less(x, zero()), neg(result), select(equal(x, zero()), x, result));
}

#if defined(CAMSHAFT_HAS_FMA)
// a + b exactly, for |a| ≥ |b| or a = 0.
struct TwoFloats {
  F32 high, low;
};
CAMSHAFT_INLINE TwoFloats sum_of(F32 a, F32 b) {
  const F32 high = a + b;
  return {high, b - (high - a)};
}

// log2 of positive, normal numbers in two floats: 2^-30 of its value, or 2^-31 beside whole parts.
CAMSHAFT_INLINE TwoFloats log2_parts(F32 x) {
  constexpr float kCoefficients[] = {0.6666666269302368f, 0.4000034034252167f, 0.2853691875934601f,
                                     0.2358998954296112f};
  constexpr float kLog2EHigh = 1.44269502f, kLog2ELow = 1.92596303e-8f;
  constexpr int32_t kSqrtHalfBits = 0x3f3504f3;
  const I32 bits = bits_as_int(x);
  const I32 exponent = shift_right_arithmetic<23>(bits - iset1(kSqrtHalfBits));
  const F32 r = bits_as_float(bits - shift_left<23>(exponent)) - set1(1);
  // log(1 + r) = 2 s + s³ P(s²), s = r / (2 + r)
  const TwoFloats divisor = sum_of(set1(2), r);
  const F32 s = r / divisor.high;
  const F32 s_low = fnma(s, divisor.low, fnma(s, divisor.high, r)) / divisor.high;
  const F32 square = s * s;
  const F32 cube = fma(s * square, polynomial(square, kCoefficients), s_low + s_low);
  const TwoFloats log = sum_of(s + s, cube);
  const F32 high = log.high * set1(kLog2EHigh);
  const F32 low = fma(log.high, set1(kLog2ELow),
                      fma(log.low, set1(kLog2EHigh), fma(log.high, set1(kLog2EHigh), neg(high))));
  const TwoFloats whole = sum_of(to_float(exponent), high);
  return sum_of(whole.high, whole.low + low);
}

// What pow cannot do: bases that are denormal, infinite or no number, exponents from 2^23 on.
CAMSHAFT_INLINE M32 is_hard_power(F32 x, F32 y) {
  const F32 size = abs(x);
  const M32 is_base =
      mask_and(less_equal(set1(1.17549435e-38f), size), less(size, set1(kInfinity)));
  return mask_not(mask_and(mask_or(is_base, equal(x, zero())), less(abs(y), set1(8388608.0f))));
}

// x^y where !is_hard_power, ≤ 2 ulp. Negative bases have whole exponents, or give NaN.
CAMSHAFT_INLINE F32 pow(F32 x, F32 y) {
  const M32 nothing = equal(x, zero());
  const TwoFloats log = log2_parts(select(nothing, set1(1), abs(x)));
  const F32 high = y * log.high;
  const F32 low = fma(y, log.low, fma(y, log.high, neg(high)));
  // 2^±200 over- and underflows as any larger power does.
  const F32 clamped = min(set1(200), max(set1(-200), high));
  const F32 n = round_even(clamped);
  const F32 inside = select(equal(clamped, high), low, zero());
  const F32 r = ((clamped - n) + inside) * set1(0.693147182f);
  const F32 power = scale_by_power(exp_fraction(r) + set1(1), n);
  const F32 of_nothing =
      select(less(y, zero()), set1(kInfinity), select(equal(y, zero()), set1(1), zero()));
  const F32 size = select(nothing, of_nothing, power);
  // The sign counts for odd exponents, that of 0, too.
  const F32 half = y * set1(0.5f);
  const M32 is_whole = equal(round_even(y), y);
  const M32 is_odd = mask_and(is_whole, mask_not(equal(round_even(half), half)));
  const M32 negative = less(select(nothing, set1(1) / x, x), zero());
  const F32 whole = select(mask_and(negative, is_odd), neg(size), size);
  return select(mask_and(less(x, zero()), mask_not(is_whole)), set1(__builtin_nanf("")), whole);
}
#endif

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
