// SPDX-License-Identifier: Apache-2.0
// A vector of channels of one pixel: neighbours where tensors are channel last, else far apart.
#pragma once

#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

template <bool kGathers>
CAMSHAFT_INLINE F32 load_channels(const float* x, int64_t stride, M32 some) {
  if constexpr (!kGathers) return load(x, some);
  return select(some, gather(x, iota() * iset1(static_cast<int32_t>(stride))), zero());
}

CAMSHAFT_INLINE void store_channels(float* y, int64_t stride, F32 values, int64_t count) {
  if (stride == 1) return store(y, values, first_n(static_cast<int>(count)));
  float each[kLanes];
  store(each, values);
  for (int64_t lane = 0; lane < count; ++lane) y[lane * stride] = each[lane];
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
