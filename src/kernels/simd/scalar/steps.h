// SPDX-License-Identifier: Apache-2.0
// Steps of K of tiles of floats.
#pragma once

namespace camshaft::kernels::scalar {

inline constexpr int kFloatSteps = 1;

CAMSHAFT_INLINE void add_product(F32 row, F32 column, F32& sum) {
  sum = fma(row, column, sum);
}
CAMSHAFT_INLINE F32 pin(F32 sum) {
  return sum;
}

}  // namespace camshaft::kernels::scalar
