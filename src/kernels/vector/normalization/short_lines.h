// SPDX-License-Identifier: Apache-2.0
// Short lines, a line per lane: one by itself waits for its sum and uses a part of a vector.
#pragma once

#include "kernels/vector/counts.h"
#include "kernels/vector/movement/transpose_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

inline constexpr int64_t kTurnedLines = 128;  // that are turned together

// body(vector) for kLanes lines at a time: it changes element k of all of them in place, at
// vector + k * kTurnedLines. Lines of `size` ≤ kMostElements elements, `count` of them, x_step and
// y_step apart; lanes beyond the last are zeros.
template <int64_t kMostElements, class Body>
CAMSHAFT_INLINE void for_lines_in_lanes(const float* x, int64_t x_step, float* y, int64_t y_step,
                                        int64_t size, int64_t count, const Body& body) {
  alignas(64) float turned[kMostElements * kTurnedLines];
  for (int64_t first = 0; first < count; first += kTurnedLines) {
    const int64_t lines = smaller(count - first, kTurnedLines), vectors = ceil_div(lines, kLanes);
    if (lines % kLanes != 0)
      for (int64_t k = 0; k < size; ++k)
        store(turned + k * kTurnedLines + (vectors - 1) * kLanes, zero());
    transpose_block(x + first * x_step, x_step, turned, kTurnedLines, lines, size);
    for (int64_t v = 0; v < vectors; ++v) body(turned + v * kLanes);
    transpose_block(turned, kTurnedLines, y + first * y_step, y_step, size, lines);
  }
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
