// SPDX-License-Identifier: Apache-2.0
// The inner loop of every register tile, over an arithmetic M: how a step of K of a row of A and of
// a vector of columns of B look in registers, and how their product is added. Included by the tile
// sources only.
#pragma once

#include <utility>

#include "kernels/simd/steps.h"
#include "kernels/vector/gemm/gemm_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// Four rows share a base pointer (base, +s, +2s, +3s are all addressing modes), so 14 rows need 4
// pointers and 2 strides.
inline constexpr int kRowsPerBase = 4;

// Rows r of A: a step's bytes lie at base[r / 4] + r % 4 * stride.
template <int kRows>
struct StepRows {
  static constexpr int kBases = (kRows + kRowsPerBase - 1) / kRowsPerBase;
  const std::byte* base[kBases];
  int64_t s, s3;

  CAMSHAFT_INLINE_MEMBER StepRows(const std::byte* a, int64_t stride) : s(stride), s3(3 * stride) {
    base[0] = a;
#pragma GCC unroll 8
    for (int k = 1; k < kBases; ++k) base[k] = base[k - 1] + kRowsPerBase * stride;
  }
  CAMSHAFT_INLINE_MEMBER void advance(int64_t bytes) {
#pragma GCC unroll 8
    for (int k = 0; k < kBases; ++k) base[k] += bytes;
  }
  CAMSHAFT_INLINE_MEMBER const std::byte* at(int r) const {
    const int step = r % kRowsPerBase;
    return base[r / kRowsPerBase] + (step == 3 ? s3 : step * s);
  }
};

template <class Vector, int kRows, int kVecs>
struct Accumulators {
  Vector v[kRows][kVecs];
};

// Steps of K between two tests of the loop, unless every one of them has a line to fetch: then
// memory is what they wait for.
template <class M>
consteval int steps_together() {
  if constexpr (requires { M::kStepsTogether; })
    return M::kStepsTogether;
  else
    return 1;
}

// Of a column of B.
template <class M>
consteval int64_t column_bytes() {
  if constexpr (requires { M::kColumnBytes; })
    return M::kColumnBytes;
  else
    return kLaneBytes;
}

// A step of K, row after row: the columns stay in registers.
template <class M, int kRows, int kVecs, int kBases>
CAMSHAFT_INLINE void add_rows(const M& m, const std::byte* const (&a)[kBases], int64_t s,
                              int64_t s3, const std::byte* b,
                              Accumulators<typename M::Sum, kRows, kVecs>& acc) {
  typename M::Column column[kVecs];
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v) column[v] = m.column(b + v * kLanes * column_bytes<M>());
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
    const typename M::Column column = m.column(b + v * kLanes * column_bytes<M>());
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) m.add_product(row[r], column, acc.v[r][v]);
  }
}

template <int kRows, int kVecs>
CAMSHAFT_INLINE void pin(Accumulators<F32, kRows, kVecs>& acc) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) acc.v[r][v] = pin(acc.v[r][v]);
  }
}

// Keeps sums of an offset and a constant from being kept in registers of their own.
CAMSHAFT_INLINE void pin(int64_t& offset) {
  asm volatile("" : "+r"(offset));
}

// Where the next step of K is read: rows of A, kRowsPerBase of them from each base; columns of B;
// what is fetched meanwhile. Distances in bytes: between rows of A, three of them, between steps.
template <int kBases>
struct Position {
  const std::byte *a[kBases], *b, *ahead;
  int64_t row, row3, step, ahead_step;
};

// Lines that a step of few rows reads. Where weights stream from memory all of them are to be
// fetched: every third or fourth alone, and the processor's own prefetcher does not see a stream
// (1x64, 16 MB: 0.75 to 1.3 ms instead of 0.45 on Zen 3).
template <class M, int kRows, int kVecs>
consteval int streamed_lines() {
  if constexpr (requires { M::kFetchesAhead; })
    return kRows <= 4 && kVecs * kLanes * column_bytes<M>() > kCacheLine
               ? static_cast<int>(kVecs * kLanes * column_bytes<M>() / kCacheLine)
               : 1;
  else
    return 1;
}

// So many steps of K. All of them together want more registers than there are if the compiler mixes
// them, which the pins forbid.
template <class M, int kRows, int kVecs, int kSteps, int kLines = 1, int kBases>
CAMSHAFT_INLINE void add_steps(const M& m, Position<kBases>& at,
                               Accumulators<typename M::Sum, kRows, kVecs>& acc) {
#pragma GCC unroll 4
  for (int step = 0; step < kSteps; ++step) {
    const std::byte* a[kBases];
#pragma GCC unroll 8
    for (int base = 0; base < kBases; ++base) a[base] = at.a[base] + step * kLaneBytes;
    if constexpr (kRows < kVecs && kRows <= 2)
      add_columns<M, kRows, kVecs>(m, a[0], at.row, at.b + step * at.step, acc);
    else
      add_rows<M, kRows, kVecs>(m, a, at.row, at.row3, at.b + step * at.step, acc);
    if constexpr (kSteps > 1) {
      pin(acc);
      pin(at.row), pin(at.row3), pin(at.step);
    }
  }
  at.b += kSteps * at.step;
  if constexpr (requires { M::kFetchesAhead; }) {
#pragma GCC unroll 4
    for (int line = 0; line < kLines; ++line)
      __builtin_prefetch(at.ahead + line * kCacheLine, 0, 2);
    at.ahead += kSteps * at.ahead_step;
  }
#pragma GCC unroll 8
  for (int base = 0; base < kBases; ++base) at.a[base] += kSteps * kLaneBytes;
}

// The lines that rows of A begin with.
template <int kRows>
CAMSHAFT_INLINE void fetch_rows(const StepRows<kRows>& rows) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) __builtin_prefetch(rows.at(r));
}

// `first`: row 0 of A.
template <class M, int kRows, int kVecs>
CAMSHAFT_INLINE void multiply(const Tile& t, const std::byte* first,
                              Accumulators<typename M::Sum, kRows, kVecs>& acc) {
  constexpr int kBases = (kRows + kRowsPerBase - 1) / kRowsPerBase;
  constexpr int kTogether = steps_together<M>();
  const M m;
  Position<kBases> at;
  at.row = t.a.stride, at.row3 = 3 * t.a.stride, at.step = t.b.stride;
  // Without anything to fetch, a line that is there anyway: cheaper than a branch.
  at.ahead = t.ahead.from ? t.ahead.from : t.b.first;
  at.ahead_step = t.ahead.from ? t.ahead.step : 0;
  for (int64_t segment = 0; segment < t.k.num_segments; ++segment) {
    at.a[0] = first + t.k.segments[segment].a;
    at.b = t.b.first + t.k.segments[segment].b * at.step;
#pragma GCC unroll 8
    for (int base = 1; base < kBases; ++base) at.a[base] = at.a[base - 1] + kRowsPerBase * at.row;
    if constexpr (requires { M::kFetchesAhead; } && kRows > 1) {
      const bool is_last = segment + 1 == t.k.num_segments;
      fetch_rows(StepRows<kRows>(is_last ? first + kRows * at.row + t.k.segments[0].a
                                         : first + t.k.segments[segment + 1].a,
                                 at.row));
    }
    int64_t k = t.k.length;
    constexpr int kLines = streamed_lines<M, kRows, kVecs>();
    if constexpr (kLines > 1) {
      if (at.ahead_step > kCacheLine)
#pragma GCC unroll 1
        for (; k > 0; --k) add_steps<M, kRows, kVecs, 1, kLines>(m, at, acc);
    }
    if constexpr (kTogether > 1) {
      if (kTogether * at.ahead_step <= kCacheLine)
        for (; k >= kTogether; k -= kTogether) add_steps<M, kRows, kVecs, kTogether>(m, at, acc);
    }
#pragma GCC unroll 1
    for (; k > 0; --k) add_steps<M, kRows, kVecs, 1>(m, at, acc);
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
