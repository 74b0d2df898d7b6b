// SPDX-License-Identifier: Apache-2.0
// The byte tiles of one instruction set: what byte_tile_kernel chooses from when the process
// starts.
#pragma once

#include "kernels/vector/gemm/gemm_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

TileKernel word_tile_kernel(int vecs, int rows);
#if defined(CAMSHAFT_HAS_BYTE_PAIRS)
TileKernel widened_tile_kernel(int vecs, int rows);  // of Numeric::kWord
#endif
#if defined(CAMSHAFT_HAS_VNNI)
TileKernel vnni_tile_kernel(int vecs, int rows);
#endif

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
