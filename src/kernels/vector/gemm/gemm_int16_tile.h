// SPDX-License-Identifier: Apache-2.0
// Products of int16 with int32 sums, for transformed bytes, and what follows sums that are already
// in memory. 1 ≤ rows ≤ kMaxInt16Rows[vecs].
#pragma once

#include "kernels/vector/gemm/gemm_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// C = A * B in int32, wrapping: A and B hold two steps of K in a lane, C all columns of the panel.
TileKernel int16_tile_kernel(int vecs, int rows);
// The finish of a byte tile for sums bias + a[row][vecs * kLanes], int32.
TileKernel sums_kernel(int vecs, int rows);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
