// SPDX-License-Identifier: Apache-2.0
// One step of an affine program on vectors: what the loops over its operands share.
#pragma once

#include "kernels/epilogue/affine_program.h"
#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

struct Factors {
  F32 scale[2], offset[2], shift, low, high, divisor, reciprocal;
  I32 after;
};

static inline Factors splat(const Affine& f) {
  return {{set1(f.scale[0]), set1(f.scale[1])},
          {set1(f.offset[0]), set1(f.offset[1])},
          set1(f.shift),
          set1(f.low),
          set1(f.high),
          set1(f.divisor),
          set1(f.divisor != 0 ? 1 / f.divisor : 0),
          iset1(f.after)};
}

// What is done with the operands: kOne: scale, kTwo: both, kDivide.
enum class Form { kOne, kTwo, kDivide };

// a / divisor, correctly rounded: the product with the rounded reciprocal is one step off at most,
// and its remainder is exact where fma is fused. Clamped before, that infinities have one too.
CAMSHAFT_INLINE F32 quotient(const Factors& f, F32 a) {
#if !defined(CAMSHAFT_HAS_FMA)
  return a / f.divisor;
#else
  const F32 near = min(f.high, max(f.low, a * f.reciprocal));
  return fma(fnma(near, f.divisor, a), f.reciprocal, near);
#endif
}

template <Form kForm, bool kHasOffsets>
CAMSHAFT_INLINE F32 combine(const Factors& f, F32 a, F32 b) {
  F32 t;
  if constexpr (kForm == Form::kDivide) {
    t = quotient(f, a);
  } else {
    if (kHasOffsets) a = a - f.offset[0];
    t = fma(a, f.scale[0], f.shift);
    if (kForm == Form::kTwo) t = fma(kHasOffsets ? b - f.offset[1] : b, f.scale[1], t);
  }
  return min(f.high, max(f.low, t));
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
