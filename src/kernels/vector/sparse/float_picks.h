// SPDX-License-Identifier: Apache-2.0
// Panels of floats that are 2:4: lanes are output channels, and of the neighbouring channels of a
// pixel that a register holds each lane picks the one its weight is for. Half as many
// multiply-adds, each with a permutation, 0.53 to 0.56 of the bytes; the same additions in the same
// order as dense tiles, without those by zero.
//
// A tap is blocks of as many picks as the bits of a lane can say: a row of lanes of positions, the
// first pick's lowest, then a row of weights for each pick, two for every four input channels. The
// last block of a tap has as many rows as it needs.
#pragma once

#include "kernels/simd/picks.h"
#include "kernels/vector/convolution/conv_filter.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/gemm/gemm_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

inline constexpr int64_t kBlockPicks = 32 / kPickBits;
inline constexpr int64_t kChannelsPerPick = 2;

inline int64_t picks_of(const ConvShape& shape) {  // of a tap
  return shape.group_ic() / kChannelsPerPick;
}
inline int64_t pick_rows(const ConvShape& shape) {
  return picks_of(shape) + ceil_div(picks_of(shape), kBlockPicks);
}
// Their K counts picks.
Panels pick_panels(const ConvShape& shape, int max_vecs);
int pick_max_rows(int vecs);
TileKernel pick_tile_kernel(int vecs, int rows);

// [groups][panel][kh][kw], of scale * filter.
void pack_pick_filter(const ConvShape& shape, const Filter<float>& filter, int max_vecs,
                      float scale, std::byte* packed);

// Of tiles that took so long if they were dense.
double pick_tiles_us(double dense_us);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
