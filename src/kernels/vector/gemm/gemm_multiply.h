// SPDX-License-Identifier: Apache-2.0
// The inner loop of every register tile, over an arithmetic M: how a step of K of a row of A and of
// a vector of columns of B look in registers, and how their product is added. Included by the tile
// sources only.
#pragma once

#include <utility>

#include "kernels/vector/gemm/gemm_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// Four rows share a base pointer (base, +s, +2s, +3s are all addressing modes), so 14 rows need 4
// pointers and 2 strides.
inline constexpr int kRowsPerBase = 4;

template <class Vector, int kRows, int kVecs>
struct Accumulators {
  Vector v[kRows][kVecs];
};

// A step of K, row after row: the columns stay in registers.
template <class M, int kRows, int kVecs, int kBases>
CAMSHAFT_INLINE void add_rows(const M& m, const std::byte* const (&a)[kBases], int64_t s,
                              int64_t s3, const std::byte* b,
                              Accumulators<typename M::Sum, kRows, kVecs>& acc) {
  typename M::Column column[kVecs];
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v) column[v] = m.column(b + v * kLanes * kLaneBytes);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const int step = r % kRowsPerBase;
    const typename M::Row row = m.row(a[r / kRowsPerBase] + (step == 3 ? s3 : step * s));
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) m.add_product(row, column[v], acc.v[r][v]);
  }
}

// A step of K, column after column: the rows stay in registers, they are fewer (2x48 of AVX2 has 12
// accumulators and 6 columns: more than 16 registers).
template <class M, int kRows, int kVecs>
CAMSHAFT_INLINE void add_columns(const M& m, const std::byte* a, int64_t s, const std::byte* b,
                                 Accumulators<typename M::Sum, kRows, kVecs>& acc) {
  typename M::Row row[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) row[r] = m.row(a + r * s);
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v) {
    const typename M::Column column = m.column(b + v * kLanes * kLaneBytes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) m.add_product(row[r], column, acc.v[r][v]);
  }
}

// `first`: row 0 of A.
template <class M, int kRows, int kVecs>
CAMSHAFT_INLINE void multiply(const Tile& t, const std::byte* first,
                              Accumulators<typename M::Sum, kRows, kVecs>& acc) {
  constexpr int kBases = (kRows + kRowsPerBase - 1) / kRowsPerBase;
  const int64_t s = t.a.stride, s3 = 3 * s, b_stride = t.b.stride;
  const M m;
  // Without anything to fetch, a line that is there anyway: cheaper than a branch.
  const std::byte* ahead = t.ahead.from ? t.ahead.from : t.b.first;
  const int64_t ahead_step = t.ahead.from ? t.ahead.step : 0;
  for (int64_t segment = 0; segment < t.k.num_segments; ++segment) {
    const std::byte* a[kBases];
    a[0] = first + t.k.segments[segment].a;
    const std::byte* b = t.b.first + t.k.segments[segment].b * b_stride;
#pragma GCC unroll 8
    for (int base = 1; base < kBases; ++base) a[base] = a[base - 1] + kRowsPerBase * s;
    for (int64_t k = t.k.length; k > 0; --k) {
      if constexpr (kRows < kVecs && kRows <= 2)
        add_columns<M, kRows, kVecs>(m, a[0], s, b, acc);
      else
        add_rows<M, kRows, kVecs>(m, a, s, s3, b, acc);
      if constexpr (requires { M::kFetchesAhead; }) {
        __builtin_prefetch(ahead, 0, 2);
        ahead += ahead_step;
      }
      b += b_stride;
#pragma GCC unroll 8
      for (int base = 0; base < kBases; ++base) a[base] += kLaneBytes;
    }
  }
}

template <class M, int kRows, int kVecs>
CAMSHAFT_INLINE void multiply(const Tile& t, Accumulators<typename M::Sum, kRows, kVecs>& acc) {
  multiply<M>(t, t.a.first, acc);
}

// The table of kernels Run<kRows, kVecs>: kRowsOf[vecs] rows at most.
template <template <int, int> class Run, const int (&kRowsOf)[kMaxVecs + 1]>
struct KernelTable {
  TileKernel kernels[kMaxVecs][16] = {};

  constexpr KernelTable() { fill<1>(); }
  TileKernel at(int vecs, int rows) const { return kernels[vecs - 1][rows - 1]; }

 private:
  template <int kVecs, int... kRowsMinusOne>
  constexpr void fill_row(std::integer_sequence<int, kRowsMinusOne...>) {
    ((kernels[kVecs - 1][kRowsMinusOne] = Run<kRowsMinusOne + 1, kVecs>::run), ...);
  }
  template <int kVecs>
  constexpr void fill() {
    fill_row<kVecs>(std::make_integer_sequence<int, kRowsOf[kVecs]>());
    if constexpr (kVecs < kMaxVecs) fill<kVecs + 1>();
  }
};

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
