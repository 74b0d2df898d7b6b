// SPDX-License-Identifier: Apache-2.0
// Tiles in AMX's matrix registers: 32 rows by 32 columns are two tiles of A, two of B and four of
// sums. A is read in place, rows at any stride, and B as the panels that vpdpbusd and vdpbf16ps
// read, so plans, packing and epilogues are those of the other tiles.
#pragma once

#include "kernels/vector/gemm/gemm_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

inline constexpr int kAmxRows = 32, kAmxVecs = 2;

// 1 ≤ vecs ≤ kAmxVecs, 1 ≤ rows ≤ kAmxRows; of bytes or bfloat16s.
TileKernel amx_tile_kernel(Numeric numeric, int vecs, int rows);
// Fewer steps of K leave most of a register empty.
inline constexpr int64_t kLeastAmxSteps = 8;
// Microseconds of one thread in the tiles of `rows` rows of `strip` pixels by n columns, K of so
// many segments of so many steps.
double amx_cost_us(int64_t rows, int64_t strip, int64_t n, int64_t segments, int64_t steps,
                   int max_vecs);
// Runs `rounds` rounds of amx_macs_per_round products in registers.
void run_amx_chains(Numeric numeric, int64_t rounds);
int64_t amx_macs_per_round(Numeric numeric);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
