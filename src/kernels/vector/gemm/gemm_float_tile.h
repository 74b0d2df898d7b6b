// SPDX-License-Identifier: Apache-2.0
// What register tiles with float accumulators share around their products. `tail`: the lanes of the
// last vector of columns. Included by the tile sources only.
#pragma once

#include "kernels/vector/gemm/gemm_multiply.h"
#include "kernels/vector/program/gate.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

CAMSHAFT_INLINE F32 load_floats(const std::byte* p) {
  return load(reinterpret_cast<const float*>(p));
}
CAMSHAFT_INLINE F32 load_floats(const std::byte* p, M32 mask) {
  return load(reinterpret_cast<const float*>(p), mask);
}

// `from`: the tile's C.
template <int kRows, int kVecs>
CAMSHAFT_INLINE void start_floats(const Tile& t, const std::byte* from, M32 tail,
                                  Accumulators<F32, kRows, kVecs>& acc) {
  if (t.start.from_c) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) {
        const std::byte* c = from + r * t.c.stride + v * kLanes * kLaneBytes;
        acc.v[r][v] = v == kVecs - 1 ? load_floats(c, tail) : load_floats(c);
      }
    }
    return;
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v) {
    const F32 bias =
        t.start.bias ? load(static_cast<const float*>(t.start.bias) + v * kLanes) : zero();
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) acc.v[r][v] = bias;
  }
}

// LeakyReLU or a gate, where the tile has one.
template <int kRows, int kVecs>
CAMSHAFT_INLINE void activate(const Tile& t, Accumulators<F32, kRows, kVecs>& acc) {
  if (t.floats.slope != 1) {
    const F32 slope = set1(t.floats.slope);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) acc.v[r][v] = max(slope * acc.v[r][v], acc.v[r][v]);
    }
  }
  if (t.floats.gate) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v)
        acc.v[r][v] = acc.v[r][v] * gate_of(*t.floats.gate, acc.v[r][v]);
    }
  }
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
