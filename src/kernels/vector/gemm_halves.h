// SPDX-License-Identifier: Apache-2.0
// Packed panels for machines whose only fast product of bytes is vpmaddubsw, which adds two
// products in 16 bits and saturates. A step of K cannot saturate with any uint8 where in every
// column the positive weights of each pair sum up to at most 128, the negative ones to at least
// -128. Other steps are packed as two that cannot: w = (w >> 1) + (w - (w >> 1)). A panel with too
// many of them is left as it is, for 16-bit products. Both are exact.
#pragma once

#include "kernels/vector/gemm_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

#if defined(CAMSHAFT_TARGET_avx2)
inline constexpr bool kHalvesSteps = true;
#else
inline constexpr bool kHalvesSteps = false;
#endif

// Panels of bytes, n columns of `steps` steps.
Panels byte_panels(int64_t n, int64_t steps, int max_vecs);
// `natural`: [steps][width] lanes as pack_byte_panel gives them.
void pack_halves(const std::byte* natural, int64_t steps, int64_t width, std::byte* panel);
// Sets the panel of `tile`; gives the kernel for it.
TileKernel byte_panel_kernel(const std::byte* panel, int64_t steps, int vecs, int rows, Tile& tile);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
