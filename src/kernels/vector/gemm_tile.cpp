// SPDX-License-Identifier: Apache-2.0
// Registers of the 14x2 tile (AVX-512): 28 accumulators, 2 vectors of B, 2 broadcasts. Per k: 28
// FMA, 14 broadcast loads and 2 loads of B: 14 cycles of FMA against 8 of loads.
#include "kernels/vector/gemm_tile.h"

#include <utility>

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

// Four rows share a base pointer (base, +s, +2s, +3s are all addressing modes), so 14 rows need 4
// pointers and 2 strides.
constexpr int kRowsPerBase = 4;

template <int kRows, int kVecs>
struct Accumulators {
  F32 v[kRows][kVecs];
};

template <int kRows, int kVecs>
CAMSHAFT_INLINE void start(const Tile& t, M32 tail, Accumulators<kRows, kVecs>& acc) {
  if (t.accumulate) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) {
        const float* c = t.c + r * t.c_stride + v * kLanes;
        acc.v[r][v] = v == kVecs - 1 ? load(c, tail) : load(c);
      }
    }
    return;
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v) {
    const F32 bias = t.bias ? load(t.bias + v * kLanes) : zero();
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) acc.v[r][v] = bias;
  }
}

template <int kRows, int kVecs>
CAMSHAFT_INLINE void multiply(const Tile& t, Accumulators<kRows, kVecs>& acc) {
  constexpr int kBases = (kRows + kRowsPerBase - 1) / kRowsPerBase;
  const int64_t s = t.a_stride, s3 = 3 * s, b_stride = t.b_stride;
  for (int64_t segment = 0; segment < t.num_segments; ++segment) {
    const float* a[kBases];
    a[0] = t.a + t.segments[segment].a;
    const float* b = t.b + t.segments[segment].b * b_stride;
#pragma GCC unroll 8
    for (int base = 1; base < kBases; ++base) a[base] = a[base - 1] + kRowsPerBase * s;
    for (int64_t k = t.segment_length; k > 0; --k) {
      F32 column[kVecs];
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) column[v] = load(b + v * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const int step = r % kRowsPerBase;
        const float* row = a[r / kRowsPerBase] + (step == 3 ? s3 : step * s);
        const F32 value = set1(*row);
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) acc.v[r][v] = fma(value, column[v], acc.v[r][v]);
      }
      b += b_stride;
#pragma GCC unroll 8
      for (int base = 0; base < kBases; ++base) ++a[base];
    }
  }
}

// The constant operand comes first, so that NaN stays NaN.
CAMSHAFT_INLINE F32 clamp(F32 value, F32 low, F32 high) {
  return min(high, max(low, value));
}

template <int kRows, int kVecs>
CAMSHAFT_INLINE void finish(const Tile& t, M32 tail, Accumulators<kRows, kVecs>& acc) {
  if (t.slope != 1) {
    const F32 slope = set1(t.slope);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) acc.v[r][v] = max(slope * acc.v[r][v], acc.v[r][v]);
    }
  }
  if (t.residual) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) {
        const float* more = t.residual + r * t.residual_stride + v * kLanes;
        acc.v[r][v] = acc.v[r][v] + (v == kVecs - 1 ? load(more, tail) : load(more));
      }
    }
  }
  const F32 low = set1(t.low), high = set1(t.high);
  const bool full = t.cols == kVecs * kLanes;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    float* c = t.c + r * t.c_stride;
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      const F32 value = clamp(acc.v[r][v], low, high);
      if (v < kVecs - 1 || full)
        store(c + v * kLanes, value);
      else
        store(c + v * kLanes, value, tail);
    }
  }
}

template <int kRows, int kVecs>
void run_tile(const Tile& t) {
  const M32 tail = first_n(static_cast<int>(t.cols - (kVecs - 1) * kLanes));
  Accumulators<kRows, kVecs> acc;
  start(t, tail, acc);
  multiply(t, acc);
  finish(t, tail, acc);
}

// The row of kernels with kVecs vectors: 1 … kMaxRows[kVecs] rows.
template <int kVecs, int... kRowsMinusOne>
constexpr void fill_row(TileKernel* row, std::integer_sequence<int, kRowsMinusOne...>) {
  ((row[kRowsMinusOne] = run_tile<kRowsMinusOne + 1, kVecs>), ...);
}

struct KernelTable {
  TileKernel kernels[kMaxVecs][16] = {};
  constexpr KernelTable() { fill<1>(); }
  template <int kVecs>
  constexpr void fill() {
    fill_row<kVecs>(kernels[kVecs - 1], std::make_integer_sequence<int, kMaxRows[kVecs]>());
    if constexpr (kVecs < kMaxVecs) fill<kVecs + 1>();
  }
};

constexpr KernelTable kTable;

}  // namespace

TileKernel tile_kernel(int vecs, int rows) {
  return kTable.kernels[vecs - 1][rows - 1];
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
