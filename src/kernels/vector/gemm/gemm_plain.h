// SPDX-License-Identifier: Apache-2.0
// Products of floats with whole panels and next to nothing around them: several panels and tiles of
// rows in a call. After few steps of K setting up a tile and finishing it any way there is takes as
// long as a tenth of its products: 6x64 with panels of 16 on Zen 3 1.1 times as fast as one tile
// after the other, 1.2 times beside a busy thread.
#pragma once

#include "kernels/simd/tiles.h"
#include "kernels/vector/gemm/gemm_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// After more steps of K a plain tile is no faster than any other.
inline constexpr int64_t kMostPlainSteps = 256;
inline constexpr int kLeastPlainVecs = 2, kMostPlainVecs = kMaxVecs < 3 ? 2 : 3;
constexpr bool has_plain_tiles(int vecs) {
  return vecs >= kLeastPlainVecs && vecs <= kMostPlainVecs;
}

// Distances in floats.
struct PlainProduct {
  const float* a = nullptr;  // tiles of rows one below the other, rows a_row apart
  int64_t a_row = 0, tiles = 1;
  const float* b = nullptr;  // panels [steps][vecs * kLanes], b_panel apart
  int64_t b_panel = 0, panels = 1;
  int64_t steps = 0;
  float* c = nullptr;  // rows c_row apart; its panels lie side by side
  int64_t c_row = 0;
  bool from_c = false;           // sums begin with C,
  const float* bias = nullptr;   // or with a column's bias, or with 0
  const float* added = nullptr;  // to the sums: rows added_row apart; or null
  int64_t added_row = 0;
  const std::byte* ahead = nullptr;  // fetched into L2 meanwhile, an even part with every tile
  int64_t ahead_bytes = 0;
  float low = -__builtin_inff(), high = __builtin_inff();  // C is clamp(C, low, high)
};

// Bounds and a residual are all that happens to sums.
inline bool ends_plainly(const FloatFinish& finish) {
  return finish.slope == 1 && !finish.gate;
}

// Whether whole panels of `vecs` vectors may go through plain tiles: few steps of floats, at whose
// end nothing more happens than plain tiles do.
bool is_plain(const Tile& tile, int vecs);
// What a placed tile of floats and one segment multiplies, a panel's part; it ends plainly.
PlainProduct plain_product(const Tile& tile);

// Parts from `part` on of the same size: tiles that one call takes.
inline int64_t alike_from(const EvenSplit& split, int64_t part) {
  return (part < split.extra ? split.extra : split.parts) - part;
}

using PlainKernel = void (*)(const PlainProduct&);
// Of tiles of `rows`: kLeastPlainVecs ≤ vecs ≤ kMostPlainVecs, 1 ≤ rows ≤ kMaxRows[vecs].
PlainKernel plain_kernel(int vecs, int64_t rows);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
