// SPDX-License-Identifier: Apache-2.0
// What the dense kernels should cost, from the machine's ports and caches.
#pragma once

#include "kernels/vector/gemm/gemm_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// Tiles of an even split have two heights: visit(how many, pixels).
template <class Visit>
void for_tile_heights(const EvenSplit& tiles, const Visit& visit) {
  visit(static_cast<double>(tiles.extra), static_cast<double>(tiles.base + 1));
  visit(static_cast<double>(tiles.parts - tiles.extra), static_cast<double>(tiles.base));
}

// Below about 4 us of work, waking another thread costs more than it saves.
inline constexpr double kMacsWorthThreads = 400e3;

// Microseconds of one thread for `rows` rows of `strip` pixels against an n x k matrix (k steps) in
// tiles of at most max_vecs vectors.
double tile_cost_us(Numeric numeric, int64_t rows, int64_t strip, int64_t n, int64_t k,
                    int max_vecs);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
