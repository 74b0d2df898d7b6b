// SPDX-License-Identifier: Apache-2.0
// steps.h of sets whose tiles of floats take one step of K at a time.
#pragma once

namespace camshaft::kernels::CAMSHAFT_TARGET {

inline constexpr int kFloatSteps = 1;

CAMSHAFT_INLINE void add_in_place(F32 row, F32 column, F32& sum) {
  sum = fma(row, column, sum);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
