// SPDX-License-Identifier: Apache-2.0
// What register tiles with float accumulators share around their products. `tail`: the lanes of the
// last vector of columns. Included by the tile sources only.
#pragma once

#include "kernels/simd/bytes.h"
#include "kernels/simd/steps.h"
#include "kernels/vector/gemm/gemm_multiply.h"
#include "kernels/vector/program/gate.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

CAMSHAFT_INLINE F32 load_floats(const std::byte* p) {
  return load(reinterpret_cast<const float*>(p));
}
CAMSHAFT_INLINE F32 load_floats(const std::byte* p, M32 mask) {
  return load(reinterpret_cast<const float*>(p), mask);
}

// Of weights stored as floats.
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

// The constant operand comes first, so that NaN stays NaN.
CAMSHAFT_INLINE F32 clamp_floats(F32 value, F32 low, F32 high) {
  return min(high, max(low, value));
}

// What the next panel adds to these rows and where it is stored: pieces of a line or a few, a pixel
// apart, are no stream to the processor, and both may come from further than L2. ResNet-50's 64 to
// 256 at 56x56 on Zen 5, sparse 14x16: 0.64 ms, so 0.40, 0.55 without the output; 8x48 gains 10 %;
// dense tiles, which take longer, nothing.
template <int kVecs>
CAMSHAFT_INLINE void fetch_next_panel(const std::byte* residual, const std::byte* c) {
  constexpr int64_t kBytes = kVecs * kLanes * kLaneBytes;
#pragma GCC unroll 8
  for (int64_t at = 0; at < kBytes; at += kCacheLine) {
    __builtin_prefetch(residual + kBytes + at, 0, 3);
    __builtin_prefetch(c + kBytes + at, 1, 3);
  }
}

// `kFetches`: see fetch_next_panel.
template <bool kFetches, int kRows, int kVecs>
CAMSHAFT_INLINE void finish_floats(const Tile& t, std::byte* to, const std::byte* residual,
                                   M32 tail, Accumulators<F32, kRows, kVecs>& acc) {
  activate(t, acc);
  if (residual) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      if constexpr (kFetches)
        fetch_next_panel<kVecs>(residual + r * t.residual.stride, to + r * t.c.stride);
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
      const F32 value = clamp_floats(acc.v[r][v], low, high);
      if (v < kVecs - 1 || full)
        store(c + v * kLanes, value);
      else
        store_first(c + v * kLanes, value, tail_cols);
    }
  }
}

// Where a tile of many steps is stored: lines that come from further than L2 would hold up what is
// stored behind them. 128x768x3072 on Zen 3 81 % of the peak, so 84 to 86; what Winograd keeps in
// L1 after 64 steps would take 4 % longer.
template <int kRows, int kVecs>
CAMSHAFT_INLINE void fetch_output(const Tile& t, const std::byte* c) {
  constexpr int64_t kLeastSteps = 256, kBytes = kVecs * kLanes * kLaneBytes;
  if (kRows == 1 || t.k.num_segments * t.k.length < kLeastSteps) return;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int64_t at = 0; at < kBytes; at += kCacheLine)
      __builtin_prefetch(c + r * t.c.stride + at, 1, 3);
  }
}

// The tiles of a call, one below the other: add(its row 0 of A, its sums) adds the products.
template <int kRows, int kVecs, bool kFetches = false, class Add>
CAMSHAFT_INLINE void run_float_tiles(const Tile& t, const Add& add) {
  const M32 tail = first_n(static_cast<int>(t.c.cols - (kVecs - 1) * kLanes));
  const std::byte *a = t.a.first, *residual = t.residual.first;
  std::byte* c = t.c.first;
  for (int64_t left = t.repeats.count; left > 0; --left) {
    Accumulators<F32, kRows, kVecs> acc;
    fetch_output<kRows, kVecs>(t, c);
    start_floats(t, c, tail, acc);
    add(a, acc);
    finish_floats<kFetches>(t, c, residual, tail, acc);
    a += kRows * t.a.stride;
    c += kRows * t.c.stride;
    if (residual) residual += kRows * t.residual.stride;
  }
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
