// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/gemm/gemm_plain.h"

#include "kernels/vector/counts.h"
#include "kernels/vector/gemm/gemm_float_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

template <int kRows, int kVecs>
using Sums = Accumulators<F32, kRows, kVecs>;

CAMSHAFT_INLINE const std::byte* bytes_of(const float* p) {
  return reinterpret_cast<const std::byte*>(p);
}

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

template <int kSteps, int kRows, int kVecs>
CAMSHAFT_INLINE void add_steps(StepRows<kRows>& rows, const std::byte*& b,
                               Sums<kRows, kVecs>& sums) {
  constexpr int64_t kStepBytes = kVecs * kLanes * kLaneBytes;
#pragma GCC unroll 4
  for (int step = 0; step < kSteps; ++step) {
    add_rows<FloatProduct>(FloatProduct{}, rows.base, rows.s, rows.s3, b + step * kStepBytes, sums);
    rows.advance(kLaneBytes);
    keep(sums);
  }
  b += kSteps * kStepBytes;
}

// What of a panel belongs to a tile.
struct PlainPart {
  const float *a, *b, *bias, *added;
  float* c;
  bool is_bounded;
};

template <int kRows, int kVecs>
CAMSHAFT_INLINE void finish(const PlainProduct& p, const PlainPart& part,
                            Sums<kRows, kVecs>& sums) {
  if (part.added) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const float* added = part.added + r * p.added_row;
      fetch_next_panel<kVecs>(bytes_of(added), bytes_of(part.c + r * p.c_row));
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) sums.v[r][v] = sums.v[r][v] + load(added + v * kLanes);
    }
    keep(sums);
  }
  if (part.is_bounded) {
    const F32 low = set1(p.low), high = set1(p.high);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) sums.v[r][v] = clamp_floats(sums.v[r][v], low, high);
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
  StepRows<kRows> rows(bytes_of(part.a), p.a_row * kLaneBytes);
  const std::byte* b = bytes_of(part.b);
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

CAMSHAFT_INLINE void fetch_lines(const std::byte* from, const std::byte* end) {
  for (; from < end; from += kCacheLine) __builtin_prefetch(from, 0, 2);
}

// A panel is in L1 while the tiles pass it, and they are while the panels do.
template <int kRows, int kVecs>
void run_tiles(const PlainProduct& p) {
  const bool is_bounded = p.low != -__builtin_inff() || p.high != __builtin_inff();
  const std::byte *ahead = p.ahead, *ahead_end = p.ahead + p.ahead_bytes;
  const int64_t ahead_step = ceil_div(p.ahead_bytes, p.panels * p.tiles);
  for (int64_t panel = 0; panel < p.panels; ++panel) {
    const int64_t col = panel * kVecs * kLanes;
    PlainPart part{p.a,
                   p.b + panel * p.b_panel,
                   p.bias ? p.bias + col : nullptr,
                   p.added ? p.added + col : nullptr,
                   p.c + col,
                   is_bounded};
    for (int64_t tile = 0; tile < p.tiles; ++tile) {
      if (ahead < ahead_end) {
        const std::byte* stop = ahead + ahead_step;
        fetch_lines(ahead, stop < ahead_end ? stop : ahead_end);
        ahead = stop;
      }
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

bool is_plain(const Tile& tile, int vecs) {
  return has_plain_tiles(vecs) && tile.k.num_segments == 1 && tile.k.length <= kMostPlainSteps &&
         ends_plainly(tile.floats);
}

PlainProduct plain_product(const Tile& tile) {
  const auto floats = [](const std::byte* p) { return reinterpret_cast<const float*>(p); };
  const Segment& segment = tile.k.segments[0];
  return {.a = floats(tile.a.first + segment.a),
          .a_row = tile.a.stride / kLaneBytes,
          .tiles = tile.repeats.count,
          .b = floats(tile.b.first + segment.b * tile.b.stride),
          .steps = tile.k.length,
          .c = reinterpret_cast<float*>(tile.c.first),
          .c_row = tile.c.stride / kLaneBytes,
          .from_c = tile.start.from_c,
          .bias = static_cast<const float*>(tile.start.bias),
          .added = floats(tile.residual.first),
          .added_row = tile.residual.stride / kLaneBytes,
          .low = tile.floats.low,
          .high = tile.floats.high};
}

PlainKernel plain_kernel(int vecs, int64_t rows) {
  return kTable.kernels[vecs - kLeastPlainVecs][rows - 1];
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
