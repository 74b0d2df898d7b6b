// SPDX-License-Identifier: Apache-2.0
// Steps of K of tiles of floats.
#pragma once

namespace camshaft::kernels::avx2 {

// A step of a tile of 12 sums takes 6 cycles and, alone in its loop, 26 instructions. Zen 3 begins
// 6 a cycle for the two threads of a core: 3 for this one, 18 in 6 cycles, while the other is busy.
// Four steps together have 22 each, as many as are worth having: products of 128x768x768 take 0.89
// of the time beside a busy thread, alone the same.
inline constexpr int kFloatSteps = 4;

// The compiler would at times write the sum over a factor, and move registers after it.
CAMSHAFT_INLINE void add_in_place(F32 row, F32 column, F32& sum) {
  F32 here = sum;
  asm("vfmadd231ps %2, %1, %0" : "+x"(here.v) : "x"(row.v), "x"(column.v));
  sum = here;
}
// Steps that the compiler mixes want more registers than there are.
CAMSHAFT_INLINE F32 pin(F32 sum) {
  asm volatile("" : "+x"(sum.v));
  return sum;
}

}  // namespace camshaft::kernels::avx2
