// SPDX-License-Identifier: Apache-2.0
// Packed panels for machines whose only fast product of bytes is vpmaddubsw, which adds two
// products in 16 bits and saturates. While packing it is proved from the weights which steps of K
// can be multiplied so, and which four or two of them can even be added in 16 bits before they are
// widened; what cannot takes 16-bit products. All of it is exact.
#pragma once

#include "kernels/product_shares.h"
#include "kernels/vector/gemm/gemm_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// K of a panel of bytes: `count` spans (kernel rows) of `steps` steps. Steps are put in another
// order within their span.
struct Spans {
  int64_t count, steps;
};

// Panels of bytes with n columns.
Panels byte_panels(int64_t n, const Spans& spans, int max_vecs);
// `natural`: [steps][width] lanes as pack_byte_panel gives them; no code of A exceeds x_maximum.
void pack_byte_steps(const std::byte* natural, const Spans& spans, int64_t width, int64_t x_maximum,
                     std::byte* panel);
// Sets the panel of `tile`; gives the kernel for it.
TileKernel byte_panel_kernel(const std::byte* panel, const Spans& spans, int vecs, int rows,
                             Tile& tile);
// Adds what the panel is made of.
void count_products(const std::byte* panel, const Spans& spans, int64_t width,
                    ProductShares& shares);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
