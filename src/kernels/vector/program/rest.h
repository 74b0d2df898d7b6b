// SPDX-License-Identifier: Apache-2.0
// Rests of divisions of floats, exact.
#pragma once

#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// Element by element; a divisor of 0, as lanes beyond a row have, is no call.
static inline F32 fmod_each(F32 a, F32 b) {
  float x[kLanes], y[kLanes];
  store(x, a), store(y, b);
  for (int k = 0; k < kLanes; ++k)
    x[k] = y[k] != 0 ? __builtin_fmodf(x[k], y[k]) : __builtin_nanf("");
  return load(x);
}

// With the sign of a. The quotient's floor is one too large at most, and only where rounding took
// it there; the remainder of either is exact where fma is fused.
CAMSHAFT_INLINE F32 fmod(F32 a, F32 b) {
#if !defined(CAMSHAFT_HAS_FMA)
  return fmod_each(a, b);
#else
  const F32 x = abs(a), y = abs(b), quotient = x / y;
  const M32 is_held = mask_and(less(quotient, set1(0x1p23F)), less(y, set1(__builtin_inff())));
  if (any(mask_not(is_held))) return fmod_each(a, b);
  const F32 rest = fnma(floor(quotient), y, x);
  return copysign(select(less(rest, zero()), rest + y, rest), a);
#endif
}

// With the sign of b.
CAMSHAFT_INLINE F32 floor_mod(F32 a, F32 b) {
  const F32 rest = fmod(a, b);
  const M32 differ = mask_xor(less(rest, zero()), less(b, zero()));
  return select(equal(rest, zero()), copysign(zero(), b), select(differ, rest + b, rest));
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
