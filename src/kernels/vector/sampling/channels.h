// SPDX-License-Identifier: Apache-2.0
// A vector of channels of one pixel: neighbours where tensors are channel last, else far apart.
#pragma once

#include <cstdint>

#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// Tensors of more elements have lanes that 32 bits do not reach.
inline constexpr int64_t kMostElements = INT32_MAX / kLanes;

// Lanes that are not wanted read the first channel.
template <bool kGathers>
CAMSHAFT_INLINE F32 load_channels(const float* x, int64_t stride, M32 some) {
  if constexpr (!kGathers) return load(x, some);
  const I32 index = iota() * iset1(static_cast<int32_t>(stride));
  return load_at(x, bits_as_int(select(some, bits_as_float(index), zero())));
}

CAMSHAFT_INLINE void store_channels(float* y, int64_t stride, F32 values, int64_t count) {
  if (stride == 1) return store(y, values, first_n(static_cast<int>(count)));
  float each[kLanes];
  store(each, values);
  for (int64_t lane = 0; lane < count; ++lane) y[lane * stride] = each[lane];
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
