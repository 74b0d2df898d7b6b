// SPDX-License-Identifier: Apache-2.0
// The register tile of bfloat16 pairs over an arithmetic M: two steps of K in a lane, float
// accumulators. Included by the tile sources only.
#pragma once

#include "kernels/simd/float16.h"
#include "kernels/vector/gemm/gemm_float_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

template <class T, int kRows, int kVecs>
CAMSHAFT_INLINE void add_residual_of(const Tile& t, Accumulators<F32, kRows, kVecs>& acc) {
  const int64_t tail = t.c.cols - (kVecs - 1) * kLanes;
  const bool full = tail == kLanes;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const T* more = reinterpret_cast<const T*>(t.residual.first + r * t.residual.stride);
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v)
      acc.v[r][v] = acc.v[r][v] + (v < kVecs - 1 || full ? load_floats(more + v * kLanes)
                                                         : load_floats(more + v * kLanes, tail));
  }
}

template <class M, class T, int kRows, int kVecs>
CAMSHAFT_INLINE void store_clamped(const Tile& t, const Accumulators<F32, kRows, kVecs>& acc) {
  const F32 low = set1(t.floats.low), high = set1(t.floats.high);
  const int64_t tail = t.c.cols - (kVecs - 1) * kLanes;
  const bool full = tail == kLanes;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    T* c = reinterpret_cast<T*>(t.c.first + r * t.c.stride);
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      // The constant operand comes first, so that NaN stays NaN.
      const F32 value = min(high, max(low, acc.v[r][v]));
      if (v < kVecs - 1 || full)
        M::put(c + v * kLanes, value);
      else
        M::put(c + v * kLanes, value, tail);
    }
  }
}

// What follows the sums.
template <class M, int kRows, int kVecs>
CAMSHAFT_INLINE void finish_pairs(const Tile& t, Accumulators<F32, kRows, kVecs>& acc) {
  activate(t, acc);
  if (t.residual.first)
    t.residual.type == ResidualType::kBf16 ? add_residual_of<Bf16>(t, acc)
                                           : add_residual_of<float>(t, acc);
  if (t.c.type == TileOut::kBf16)
    store_clamped<M, Bf16>(t, acc);
  else
    store_clamped<M, float>(t, acc);
}

template <class M, int kRows, int kVecs>
CAMSHAFT_INLINE void run_pair_tile(const Tile& t) {
  Accumulators<F32, kRows, kVecs> acc;
  start_floats(t, t.c.first, first_n(static_cast<int>(t.c.cols - (kVecs - 1) * kLanes)), acc);
  multiply<M>(t, acc);
  finish_pairs<M>(t, acc);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
