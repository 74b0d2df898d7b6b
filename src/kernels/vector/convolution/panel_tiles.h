// SPDX-License-Identifier: Apache-2.0
// Tiles of pixels against panels of weights, one panel after the other.
#pragma once

#include "kernels/vector/convolution/conv_gemm.h"
#include "kernels/vector/gemm/gemm_plain.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// What tiles of a panel need to know of it.
struct PanelTile {
  const std::byte *weights, *bias;
  int64_t channel, cols;  // of the output
  int64_t column;         // of the packed vectors
  int vecs;
};

// Tiles of `rows` pixels, together those of `place`, against the panels [first, last).
void run_panels(const ConvRun& run, Tile& tile, const TilePlace& place, int rows,
                const PanelTile* first, const PanelTile* last, std::byte* rest_scratch);
// What follows the kernel on the pixels of `place`.
void finish_panels(const ConvRun& run, const TilePlace& place, const PanelTile* first,
                   const PanelTile* last, std::byte* rest_scratch);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
