// SPDX-License-Identifier: Apache-2.0
// Functions of doubles without branches and tables, for loops that the compiler makes vectors of.
// Errors are at most 2 units in the last place, of tanh 4.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/simd/simd.h"
#include "kernels/vector/pointwise/magic.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

inline constexpr double kDoubleLog2E = 1.4426950408889634;
inline constexpr double kDoubleLn2High = 6.93147180369123816490e-01;  // 32 bits: times n exact
inline constexpr double kDoubleLn2Low = 1.90821492927058770002e-10;

// Sum of coefficients times powers of x, from the highest on.
template <int kCount>
CAMSHAFT_INLINE double polynomial(const double (&coefficients)[kCount], double x) {
  double sum = coefficients[0];
#pragma GCC unroll 16
  for (int k = 1; k < kCount; ++k) sum = sum * x + coefficients[k];
  return sum;
}

// A number as n times a constant and what is left.
struct Powers {
  double n, rest;
};
CAMSHAFT_INLINE Powers split_powers(double x) {
  const double n = (x * kDoubleLog2E + kMagic) - kMagic;
  return {n, (x - n * kDoubleLn2High) - n * kDoubleLn2Low};
}
CAMSHAFT_INLINE double power_of_two(double n) {
  return std::bit_cast<double>((as_whole(n) + 1023) << 52);
}

// (e^r - 1 - r) / r² for |r| ≤ ln 2 / 2: Taylor's terms up to r^13 / 13!.
CAMSHAFT_INLINE double exp_tail(double r) {
  constexpr double kTerms[] = {1 / 6227020800.0, 1 / 479001600.0, 1 / 39916800.0, 1 / 3628800.0,
                               1 / 362880.0,     1 / 40320.0,     1 / 5040.0,     1 / 720.0,
                               1 / 120.0,        1 / 24.0,        1 / 6.0,        0.5};
  return polynomial(kTerms, r);
}

CAMSHAFT_INLINE double exp_of(double x) {
  const double high = x > 710 ? 710.0 : x, bounded = high < -746 ? -746.0 : high;
  const Powers p = split_powers(bounded);
  // By two powers: results may be denormal.
  const double half = (p.n * 0.5 + kMagic) - kMagic;
  return ((p.rest * p.rest * exp_tail(p.rest) + p.rest) + 1) * power_of_two(half) *
         power_of_two(p.n - half);
}

// e^x - 1 for x in [0, 700].
CAMSHAFT_INLINE double expm1_of_positive(double x) {
  const Powers p = split_powers(x);
  const double power = power_of_two(p.n);
  return power * (p.rest * p.rest * exp_tail(p.rest) + p.rest) + (power - 1);
}

CAMSHAFT_INLINE double tanh_of(double x) {
  const double magnitude = __builtin_fabs(x), bounded = magnitude > 20 ? 20.0 : magnitude;
  const double e = expm1_of_positive(2 * bounded);
  return __builtin_copysign(e / (e + 2), x);
}

CAMSHAFT_INLINE double sigmoid_of(double x) {
  return 1 / (1 + exp_of(-x));
}

// x = m 2^n with m in [√½, √2); of f = m - 1, log(1 + f) = 2 atanh(f / (2 + f)).
CAMSHAFT_INLINE double log_of(double x) {
  constexpr double kTerms[] = {2 / 23.0, 2 / 21.0, 2 / 19.0, 2 / 17.0, 2 / 15.0, 2 / 13.0,
                               2 / 11.0, 2 / 9.0,  2 / 7.0,  2 / 5.0,  2 / 3.0};
  constexpr uint64_t kRootOfHalf = 0x3fe6a09e667f3bcd, kBias = uint64_t{1023} << 52;
  const bool is_denormal = x < std::numeric_limits<double>::min();
  const uint64_t bits = std::bit_cast<uint64_t>(is_denormal ? x * 0x1p54 : x);
  // Shifted without sign, which few sets do with int64: of positive x the sum is positive.
  const uint64_t exponent = (bits - kRootOfHalf + kBias) >> 52;
  const double n = as_double(static_cast<int64_t>(exponent) - 1023) - (is_denormal ? 54.0 : 0.0);
  const double f = std::bit_cast<double>(bits - ((exponent - 1023) << 52)) - 1;
  const double s = f / (2 + f), z = s * s, half_square = 0.5 * f * f;
  const double rest = s * (half_square + z * polynomial(kTerms, z));
  const double log = n * kDoubleLn2High - ((half_square - (rest + n * kDoubleLn2Low)) - f);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double positive = x < kInfinity ? log : x;  // infinity and NaN are their own
  return x > 0 ? positive : x == 0 ? -kInfinity : std::numeric_limits<double>::quiet_NaN();
}

// x - n π/2 and the n it is nearest to; π/2 in three parts, of which the first two times n are
// exact.
inline constexpr double kMostOfAngles = 0x1p20;
CAMSHAFT_INLINE Powers split_quarters(double x) {
  const double n = (x * 0.63661977236758134308 + kMagic) - kMagic;
  const double rest = (x - n * 1.57079632673412561417e+00) - n * 6.07710050630396597660e-11;
  return {n, rest - n * 2.02226624879595063154e-21};
}

// Taylor's terms up to r^17 / 17!, for |r| ≤ π/4.
CAMSHAFT_INLINE double sin_of_rest(double r) {
  constexpr double kTerms[] = {
      1 / 355687428096000.0, -1 / 1307674368000.0, 1 / 6227020800.0, -1 / 39916800.0,
      1 / 362880.0,          -1 / 5040.0,          1 / 120.0,        -1 / 6.0};
  const double z = r * r;
  return r + r * z * polynomial(kTerms, z);
}
CAMSHAFT_INLINE double cos_of_rest(double r) {
  constexpr double kTerms[] = {
      1 / 20922789888000.0, -1 / 87178291200.0, 1 / 479001600.0, -1 / 3628800.0,
      1 / 40320.0,          -1 / 720.0,         1 / 24.0};
  const double z = r * r, half = 0.5 * z, near = 1 - half;
  return near + (((1 - near) - half) + z * z * polynomial(kTerms, z));
}

// Of angles up to kMostOfAngles, `quarters` quarters of a turn on.
CAMSHAFT_INLINE double sin_after(double x, int64_t quarters) {
  const Powers p = split_quarters(x);
  const int64_t quarter = as_whole(p.n) + quarters;
  const double value = (quarter & 1) != 0 ? cos_of_rest(p.rest) : sin_of_rest(p.rest);
  return (quarter & 2) != 0 ? -value : value;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
