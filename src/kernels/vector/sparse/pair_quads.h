// SPDX-License-Identifier: Apache-2.0
// Panels of bfloat16s that are 2:4, for products of few rows, which wait for weights: 0.56 of the
// bytes of dense ones.
//
// A quad is four neighbouring rows of B. Of each column two are kept: a lane of two bfloat16s, in
// order, and a code of four bits that says which of the six pairs they are. A block of a panel is
// eight quads: a row of lanes of codes, the first quad's lowest, then a row of pairs for each quad.
#pragma once

#include "kernels/vector/counts.h"
#include "kernels/vector/gemm/gemm_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

inline constexpr int64_t kQuadRows = 4;  // of B
inline constexpr int64_t kBlockQuads = 8;
inline constexpr int64_t kBlockRows = 1 + kBlockQuads;  // of lanes
inline constexpr int kCodeBits = 4;
inline constexpr int kQuadPairs = 6;
inline constexpr int kFirstOfPair[kQuadPairs] = {0, 0, 0, 1, 1, 2};
inline constexpr int kSecondOfPair[kQuadPairs] = {1, 2, 3, 2, 3, 3};

inline Panels quad_panels(int64_t n, int64_t k, int max_vecs) {
  return Panels(n, ceil_div(k, kQuadRows * kBlockQuads) * kBlockRows, max_vecs);
}
int quad_max_rows(int vecs);
TileKernel quad_tile_kernel(int vecs, int rows);

// The pair that holds the weights of a quad that are not zero; kQuadPairs: there are more than two.
int pair_of_quad(const float* quad, int64_t stride);

// One panel of scale * b.
void pack_quad_panel(const float* b, int64_t k_stride, int64_t n_stride, int64_t k, int64_t cols,
                     int64_t width, float scale, std::byte* out);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
