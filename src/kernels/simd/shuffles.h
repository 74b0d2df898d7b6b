// SPDX-License-Identifier: Apache-2.0
// Lanes in other places:
//   transpose_full(from, from_stride, to, to_stride): kLanes x kLanes floats
//   load_repeated<kFold>(p): kFold floats, over and over
//   pair_sums(a, b): neighbours added, those of a, then those of b
//   store_sums(a, scale, to): the sums of all lanes of four vectors, or of one
//   positive(a): the larger of a lane and 0
//   store_pixels<kChannels>(to, pixels): the first kChannels bytes of every dword
#pragma once

#include "kernels/simd/simd.h"

#include CAMSHAFT_SIMD(shuffles.h)

namespace camshaft::kernels::CAMSHAFT_TARGET {

CAMSHAFT_INLINE void store_sums(const F32 (&a)[1], float scale, float* to) {
  to[0] = scale * reduce_add(a[0]);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
