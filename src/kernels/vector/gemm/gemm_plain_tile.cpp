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

// Sums begin with rows of `from`.
template <int kRows, int kVecs>
CAMSHAFT_INLINE void load_sums(const float* from, int64_t row, Sums<kRows, kVecs>& sums) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVecs; ++v) sums.v[r][v] = load(from + r * row + v * kLanes);
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
#pragma GCC unroll 2
    for (int v = 0; v < kVecs; ++v) column[v] = load(b + (step * kVecs + v) * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const F32 row = rows.at(r, step);
#pragma GCC unroll 2
      for (int v = 0; v < kVecs; ++v) add_in_place(row, column[v], sums.v[r][v]);
    }
    keep(sums);
  }
  b += kSteps * kVecs * kLanes;
  rows.advance(kSteps);
}

// C of a panel.
template <int kRows, int kVecs>
CAMSHAFT_INLINE void run_panel(const PlainProduct& p, const float* b, const float* added,
                               float* c) {
  Sums<kRows, kVecs> sums = {};
  if (p.from_c) load_sums(c, p.c_row, sums);
  keep(sums);
  PlainRows<kRows> rows(p.a, p.a_row);
  int64_t steps = p.steps;
#pragma GCC unroll 1
  for (; steps >= kFloatSteps; steps -= kFloatSteps) add_steps<kFloatSteps>(rows, b, sums);
  if constexpr (kFloatSteps > 1) {
#pragma GCC unroll 1
    for (; steps > 0; --steps) add_steps<1>(rows, b, sums);
  }
  keep(sums);
  if (added) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVecs; ++v)
        sums.v[r][v] = sums.v[r][v] + load(added + r * p.added_row + v * kLanes);
    }
    keep(sums);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVecs; ++v) store(c + r * p.c_row + v * kLanes, sums.v[r][v]);
  }
}

template <int kRows, int kVecs>
void run_panels(const PlainProduct& p) {
  const float *b = p.b, *added = p.added;
  float* c = p.c;
  for (int64_t panel = 0; panel < p.panels; ++panel) {
    run_panel<kRows, kVecs>(p, b, added, c);
    b += p.b_panel, c += kVecs * kLanes;
    if (added) added += kVecs * kLanes;
  }
}

struct PlainTable {
  static constexpr int kMost = kMaxRows[kPlainVecs];
  PlainKernel kernels[kPlainVecs][kMost] = {};

  template <int kVecs, int... kRowsMinusOne>
  constexpr void fill(std::integer_sequence<int, kRowsMinusOne...>) {
    ((kernels[kVecs - 1][kRowsMinusOne] = run_panels<kRowsMinusOne + 1, kVecs>), ...);
  }
  constexpr PlainTable() {
    fill<1>(std::make_integer_sequence<int, kMost>());
    fill<2>(std::make_integer_sequence<int, kMost>());
  }
};
constexpr PlainTable kTable;

}  // namespace

PlainKernel plain_kernel(int vecs, int64_t rows) {
  return kTable.kernels[vecs - 1][rows - 1];
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
