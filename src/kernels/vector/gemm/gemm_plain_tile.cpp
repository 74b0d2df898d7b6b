// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/gemm/gemm_plain.h"

#include "kernels/simd/steps.h"
#include "kernels/vector/gemm/gemm_multiply.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

template <int kRows, int kVecs>
using Sums = Accumulators<F32, kRows, kVecs>;

// Keeps sums where they are, between loops that would have them elsewhere.
template <int kRows, int kVecs>
CAMSHAFT_INLINE void keep(Sums<kRows, kVecs>& sums) {
  if constexpr (kFloatSteps > 1) pin(sums);
}

template <int kRows, int kVecs>
CAMSHAFT_INLINE void start(const PlainProduct& p, const float* bias, const float* c,
                           Sums<kRows, kVecs>& sums) {
#pragma GCC unroll 4
  for (int v = 0; v < kVecs; ++v) {
    const F32 first = bias ? load(bias + v * kLanes) : zero();
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
      sums.v[r][v] = p.from_c ? load(c + r * p.c_row + v * kLanes) : first;
  }
}

// Rows of A, kRowsPerBase of them from each base.
template <int kRows>
struct PlainRows {
  static constexpr int kBases = (kRows + kRowsPerBase - 1) / kRowsPerBase;
  const float* base[kBases];
  int64_t row, row3;

  CAMSHAFT_INLINE_MEMBER PlainRows(const float* a, int64_t a_row) : row(a_row), row3(3 * a_row) {
#pragma GCC unroll 8
    for (int k = 0; k < kBases; ++k) base[k] = a + k * kRowsPerBase * a_row;
  }
  CAMSHAFT_INLINE_MEMBER F32 at(int r, int step) const {
    const int in_base = r % kRowsPerBase;
    return set1(base[r / kRowsPerBase][(in_base == 3 ? row3 : in_base * row) + step]);
  }
  CAMSHAFT_INLINE_MEMBER void advance(int steps) {
#pragma GCC unroll 8
    for (int k = 0; k < kBases; ++k) base[k] += steps;
  }
};

template <int kSteps, int kRows, int kVecs>
CAMSHAFT_INLINE void add_steps(PlainRows<kRows>& rows, const float*& b, Sums<kRows, kVecs>& sums) {
#pragma GCC unroll 4
  for (int step = 0; step < kSteps; ++step) {
    F32 column[kVecs];
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) column[v] = load(b + (step * kVecs + v) * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const F32 row = rows.at(r, step);
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) add_in_place(row, column[v], sums.v[r][v]);
    }
    keep(sums);
  }
  b += kSteps * kVecs * kLanes;
  rows.advance(kSteps);
}

// Of rows that are no stream to the processor, the lines `at` floats on.
template <int kRows, int kVecs>
CAMSHAFT_INLINE void fetch(const float* from, int64_t row, int64_t at) {
  constexpr int64_t kLineFloats = kCacheLine / kLaneBytes;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int64_t line = 0; line < kVecs * kLanes; line += kLineFloats)
      __builtin_prefetch(from + r * row + at + line);
  }
}

// What of a panel belongs to a tile.
struct PlainPart {
  const float *a, *b, *bias, *added;
  float* c;
};

template <int kRows, int kVecs>
CAMSHAFT_INLINE void finish(const PlainProduct& p, const PlainPart& part,
                            Sums<kRows, kVecs>& sums) {
  if (part.added) {
    fetch<kRows, kVecs>(part.added, p.added_row, kVecs * kLanes);
    fetch<kRows, kVecs>(part.c, p.c_row, kVecs * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v)
        sums.v[r][v] = sums.v[r][v] + load(part.added + r * p.added_row + v * kLanes);
    }
    keep(sums);
  }
  if (p.bounded) {
    // The constant operand comes first, so that NaN stays NaN.
    const F32 low = set1(p.low), high = set1(p.high);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) sums.v[r][v] = min(high, max(low, sums.v[r][v]));
    }
    keep(sums);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) store(part.c + r * p.c_row + v * kLanes, sums.v[r][v]);
  }
}

template <int kRows, int kVecs>
CAMSHAFT_INLINE void run_tile(const PlainProduct& p, const PlainPart& part) {
  Sums<kRows, kVecs> sums;
  start(p, part.bias, part.c, sums);
  keep(sums);
  PlainRows<kRows> rows(part.a, p.a_row);
  const float* b = part.b;
  int64_t steps = p.steps;
#pragma GCC unroll 1
  for (; steps >= kFloatSteps; steps -= kFloatSteps) add_steps<kFloatSteps>(rows, b, sums);
  if constexpr (kFloatSteps > 1) {
#pragma GCC unroll 1
    for (; steps > 0; --steps) add_steps<1>(rows, b, sums);
  }
  keep(sums);
  finish(p, part, sums);
}

// A panel is in L1 while the tiles pass it, and they are while the panels do.
template <int kRows, int kVecs>
void run_tiles(const PlainProduct& p) {
  for (int64_t panel = 0; panel < p.panels; ++panel) {
    const int64_t col = panel * kVecs * kLanes;
    PlainPart part{p.a, p.b + panel * p.b_panel, p.bias ? p.bias + col : nullptr,
                   p.added ? p.added + col : nullptr, p.c + col};
    for (int64_t tile = 0; tile < p.tiles; ++tile) {
      run_tile<kRows, kVecs>(p, part);
      part.a += kRows * p.a_row;
      part.c += kRows * p.c_row;
      if (part.added) part.added += kRows * p.added_row;
    }
  }
}

constexpr int kMostPlainRows = kMaxRows[kLeastPlainVecs];

struct PlainTable {
  PlainKernel kernels[kMostPlainVecs - kLeastPlainVecs + 1][kMostPlainRows] = {};

  template <int kVecs, int... kRowsMinusOne>
  constexpr void fill(std::integer_sequence<int, kRowsMinusOne...>) {
    ((kernels[kVecs - kLeastPlainVecs][kRowsMinusOne] = run_tiles<kRowsMinusOne + 1, kVecs>), ...);
  }
  constexpr PlainTable() {
    fill<2>(std::make_integer_sequence<int, kMaxRows[2]>());
    if constexpr (kMostPlainVecs > 2)
      fill<kMostPlainVecs>(std::make_integer_sequence<int, kMaxRows[kMostPlainVecs]>());
  }
};
constexpr PlainTable kTable;

}  // namespace

PlainKernel plain_kernel(int vecs, int64_t rows) {
  return kTable.kernels[vecs - kLeastPlainVecs][rows - 1];
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
