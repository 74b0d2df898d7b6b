// SPDX-License-Identifier: Apache-2.0
// Registers of the 14x2 tile (AVX-512): 28 accumulators, 2 vectors of B, 2 broadcasts. Per k: 28
// FMA, 14 broadcast loads and 2 loads of B: 14 cycles of FMA against 8 of loads.
#include "kernels/vector/gemm/gemm_tile.h"

#include "kernels/simd/bytes.h"
#include "kernels/simd/steps.h"
#include "kernels/vector/gemm/gemm_float_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

struct FloatProduct {
  static constexpr bool kFetchesAhead = true;
  static constexpr int kStepsTogether = kFloatSteps;
  using Sum = F32;
  using Row = F32;
  using Column = F32;

  CAMSHAFT_INLINE_MEMBER F32 column(const std::byte* b) const { return load_floats(b); }
  CAMSHAFT_INLINE_MEMBER F32 row(const std::byte* a) const {
    return set1(*reinterpret_cast<const float*>(a));
  }
  CAMSHAFT_INLINE_MEMBER void add_product(F32 row, F32 column, F32& sum) const {
    add_in_place(row, column, sum);
  }
};

// The constant operand comes first, so that NaN stays NaN.
CAMSHAFT_INLINE F32 clamp(F32 value, F32 low, F32 high) {
  return min(high, max(low, value));
}

template <int kRows, int kVecs>
CAMSHAFT_INLINE void finish(const Tile& t, std::byte* to, const std::byte* residual, M32 tail,
                            Accumulators<F32, kRows, kVecs>& acc) {
  activate(t, acc);
  if (residual) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) {
        const std::byte* more = residual + r * t.residual.stride + v * kLanes * kLaneBytes;
        acc.v[r][v] = acc.v[r][v] + (v == kVecs - 1 ? load_floats(more, tail) : load_floats(more));
      }
    }
  }
  const F32 low = set1(t.floats.low), high = set1(t.floats.high);
  const bool full = t.c.cols == kVecs * kLanes;
  const int tail_cols = static_cast<int>(t.c.cols - (kVecs - 1) * kLanes);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    float* c = reinterpret_cast<float*>(to + r * t.c.stride);
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      const F32 value = clamp(acc.v[r][v], low, high);
      if (v < kVecs - 1 || full)
        store(c + v * kLanes, value);
      else
        store_first(c + v * kLanes, value, tail_cols);
    }
  }
}

template <int kRows, int kVecs>
struct FloatTile {
  static void run(const Tile& t) {
    const M32 tail = first_n(static_cast<int>(t.c.cols - (kVecs - 1) * kLanes));
    const std::byte *a = t.a.first, *residual = t.residual.first;
    std::byte* c = t.c.first;
    for (int64_t left = t.repeats.count; left > 0; --left) {
      Accumulators<F32, kRows, kVecs> acc;
      start_floats(t, c, tail, acc);
      multiply<FloatProduct>(t, a, acc);
      finish(t, c, residual, tail, acc);
      a += kRows * t.a.stride;
      c += kRows * t.c.stride;
      if (residual) residual += kRows * t.residual.stride;
    }
  }
};

constexpr KernelTable<FloatTile, kMaxRows> kTable;

}  // namespace

TileKernel tile_kernel(int vecs, int rows) {
  return kTable.at(vecs, rows);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
