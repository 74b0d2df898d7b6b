// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/gemm/gemm_fold.h"

#include <utility>

#include "kernels/simd/bytes.h"
#include "kernels/simd/shuffles.h"
#include "kernels/vector/program/gate.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

constexpr int kRowsPerBase = 4;  // as in gemm_tile.cpp

template <int kFold>
CAMSHAFT_INLINE M32 first_of_column() {
  float phase[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) phase[lane] = static_cast<float>(lane % kFold);
  return equal(load(phase), zero());
}

template <int kFold, int kRows, int kVecs>
CAMSHAFT_INLINE void multiply(const Tile& t, F32 (&acc)[kRows * kVecs]) {
  constexpr int kBases = (kRows + kRowsPerBase - 1) / kRowsPerBase;
  const int64_t s = t.a.stride, s3 = 3 * s, b_stride = t.b.stride;
  const auto at = [](const std::byte* p) { return reinterpret_cast<const float*>(p); };
  const int64_t whole = t.k.length / kFold, rest = t.k.length % kFold;
  for (int64_t segment = 0; segment < t.k.num_segments; ++segment) {
    const std::byte* b = t.b.first + t.k.segments[segment].b * b_stride;
    const std::byte* a[kBases];
    a[0] = t.a.first + t.k.segments[segment].a;
#pragma GCC unroll 4
    for (int base = 1; base < kBases; ++base) a[base] = a[base - 1] + kRowsPerBase * s;
    for (int64_t k = whole; k > 0; --k) {
      F32 column[kVecs];
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) column[v] = load(at(b) + v * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const int step = r % kRowsPerBase;
        const F32 value =
            load_repeated<kFold>(at(a[r / kRowsPerBase] + (step == 3 ? s3 : step * s)));
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v)
          acc[r * kVecs + v] = fma(value, column[v], acc[r * kVecs + v]);
      }
      b += b_stride;
#pragma GCC unroll 4
      for (int base = 0; base < kBases; ++base) a[base] += kFold * kLaneBytes;
    }
    if (rest == 0) continue;
    const M32 first = first_of_column<kFold>();
    for (int64_t k = 0; k < rest; ++k, b += b_stride)
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const F32 value =
            select(first, set1(at(a[r / kRowsPerBase] + r % kRowsPerBase * s)[k]), zero());
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v)
          acc[r * kVecs + v] = fma(value, load(at(b) + v * kLanes), acc[r * kVecs + v]);
      }
  }
}

// Adds the lanes of each column: `sums` gets [rows][kVecs * kLanes / kFold].
template <int kFold, int kCount>
CAMSHAFT_INLINE void add_lanes(F32 (&acc)[kCount], float* sums) {
  int count = kCount;
#pragma GCC unroll 4
  for (int fold = kFold; fold > 1; fold /= 2) {
#pragma GCC unroll 32
    for (int k = 0; k < (count + 1) / 2; ++k)
      acc[k] = pair_sums(acc[2 * k], 2 * k + 1 < count ? acc[2 * k + 1] : zero());
    count = (count + 1) / 2;
  }
#pragma GCC unroll 32
  for (int k = 0; k < count; ++k) store(sums + k * kLanes, acc[k]);
}

// `cols` results of one row, or of `cols` rows of one column.
CAMSHAFT_INLINE void finish_run(const Tile& t, const float* sums, float* c, const float* residual,
                                int64_t cols, bool one_column) {
  const F32 low = set1(t.floats.low), high = set1(t.floats.high), slope = set1(t.floats.slope);
  for (int64_t col = 0; col < cols; col += kLanes) {
    const int count = static_cast<int>(cols - col < kLanes ? cols - col : kLanes);
    const M32 mask = first_n(count);
    F32 value = load(sums + col);
    if (t.start.from_c)
      value = value + load(c + col, mask);
    else if (t.start.bias)
      value = value + (one_column ? set1(*static_cast<const float*>(t.start.bias))
                                  : load(static_cast<const float*>(t.start.bias) + col, mask));
    if (t.floats.slope != 1) value = max(slope * value, value);
    if (t.floats.gate) value = value * gate_of(*t.floats.gate, value);
    if (residual) value = value + load(residual + col, mask);
    store_first(c + col, min(high, max(low, value)), count);
  }
}

template <int kFold, int kRows, int kVecs>
void run_tile(const Tile& t) {
  constexpr int kWidth = kVecs * kLanes / kFold;
  F32 acc[kRows * kVecs];
#pragma GCC unroll 64
  for (int k = 0; k < kRows * kVecs; ++k) acc[k] = zero();
  multiply<kFold, kRows, kVecs>(t, acc);
  alignas(64) float sums[kRows * kVecs * kLanes + kLanes];
  add_lanes<kFold>(acc, sums);
  const auto c = [&t](int r) { return reinterpret_cast<float*>(t.c.first + r * t.c.stride); };
  const auto residual = [&t](int r) {
    return t.residual.first
               ? reinterpret_cast<const float*>(t.residual.first + r * t.residual.stride)
               : nullptr;
  };
  if (kWidth == 1 && t.c.stride == kLaneBytes &&
      (!t.residual.first || t.residual.stride == kLaneBytes)) {
    finish_run(t, sums, c(0), residual(0), kRows, true);
    return;
  }
  for (int r = 0; r < kRows; ++r)
    finish_run(t, sums + r * kWidth, c(r), residual(r), t.c.cols, false);
}

template <int kFold, int kVecs, int... kRowsMinusOne>
constexpr void fill_row(TileKernel* row, std::integer_sequence<int, kRowsMinusOne...>) {
  ((row[kRowsMinusOne] = run_tile<kFold, kRowsMinusOne + 1, kVecs>), ...);
}

struct FoldTable {
  TileKernel kernels[4][kMaxFoldVecs][16] = {};  // fold 2, 4, 8, 16
  constexpr FoldTable() {
    fill<0, 2, 1>();
    fill<1, 4, 1>();
    if constexpr (kLanes >= 8) fill<2, 8, 1>();
    if constexpr (kLanes >= 16) fill<3, 16, 1>();
  }
  template <int kIndex, int kFold, int kVecs>
  constexpr void fill() {
    fill_row<kFold, kVecs>(kernels[kIndex][kVecs - 1],
                           std::make_integer_sequence<int, kMaxRows[kVecs]>());
    if constexpr (kFold <= 4 && kVecs < kMaxFoldVecs) fill<kIndex, kFold, kVecs + 1>();
  }
};

constexpr FoldTable kTable;

}  // namespace

TileKernel fold_kernel(int fold, int vecs, int rows) {
  const int index = fold == 2 ? 0 : fold == 4 ? 1 : fold == 8 ? 2 : 3;
  return kTable.kernels[index][vecs - 1][rows - 1];
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
