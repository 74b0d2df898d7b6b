// SPDX-License-Identifier: Apache-2.0
// Products of bfloat16 pairs: the tiles, and how operands are laid out for them.
#pragma once

#include "kernels/vector/gemm/gemm_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// By vdpbf16ps or, without it, by float arithmetic on widened pairs.
TileKernel pair_tile_kernel(int vecs, int rows);
#if defined(CAMSHAFT_HAS_BF16)
TileKernel dpbf16_tile_kernel(int vecs, int rows);
void narrow_by_instruction(const float* from, int64_t count, uint16_t* to);
#endif

// Bits of the nearest bfloat16s; denormals become 0 where the instruction does it.
void to_bf16(const float* from, int64_t count, uint16_t* to);

// One panel of pairs: out is [(k + 1) / 2][width] lanes of rows 2r and 2r + 1 of scale * b, zeros
// from `cols` on and beyond k.
void pack_pair_panel(const float* b, int64_t k_stride, int64_t n_stride, int64_t k, int64_t cols,
                     int64_t width, float scale, uint16_t* out);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
