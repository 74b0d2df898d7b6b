// SPDX-License-Identifier: Apache-2.0
// Keys and values of a block as panels of its two products.
#pragma once

#include "kernels/attention_shape.h"
#include "kernels/vector/attention/attention_rows.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/gemm/gemm_bf16.h"
#include "kernels/vector/gemm/gemm_pack.h"
#include "kernels/vector/gemm/gemm_tile.h"
#include "kernels/vector/movement/transpose_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::attention {

inline constexpr int kTileVecs = 2;  // columns of both products' tiles
inline constexpr int64_t kTileRows = kMaxRows[kTileVecs];
inline constexpr int64_t kTileCols = kTileVecs * kLanes;
inline constexpr int64_t kRowsAhead = 8;  // of values, while they are packed

// Of a product over `k`: pairs of bfloat16s in a lane are a step.
inline int64_t steps_of(int64_t k, bool pairs) {
  return pairs ? ceil_div(k, 2) : k;
}

// Panels [depth][columns] of `count` keys.
static inline void pack_keys(const AttentionShape& shape, bool pairs, const float* k, int64_t count,
                             float* packed) {
  const Panels panels(count, steps_of(shape.depth, pairs), kTileVecs);
  for (int64_t p = 0; p < panels.count(); ++p) {
    const float* from = k + panels.first_col(p) * shape.k.step;
    float* panel = packed + panels.offset(p);
    const int64_t cols = panels.cols_of(p), width = panels.vecs_of(p) * kLanes;
    fetch(from + cols * shape.k.step, shape.k.step, cols, shape.depth);
    if (pairs) {
      pack_pair_panel(from, 1, shape.k.step, shape.depth, cols, width, 1,
                      reinterpret_cast<uint16_t*>(panel));
      continue;
    }
    if (cols < width) fill(panel, 0, shape.depth * width);
    transpose_block(from, shape.k.step, panel, width, cols, shape.depth);
  }
}

// Panels [count][columns] that are full, a row of all of them after the other.
static inline void pack_whole_values(const AttentionShape& shape, const float* v, int64_t count,
                                     int64_t panels, float* packed) {
  for (int64_t row = 0; row < count; ++row, v += shape.v.step, packed += kTileCols) {
    fetch(v + kRowsAhead * shape.v.step, shape.v.step, 1, panels * kTileCols);
    for (int64_t p = 0; p < panels; ++p)
      for (int vec = 0; vec < kTileVecs; ++vec)
        store(packed + p * count * kTileCols + vec * kLanes,
              load(v + p * kTileCols + vec * kLanes));
  }
}

static inline void pack_values(const AttentionShape& shape, bool pairs, const float* v,
                               int64_t count, float* packed) {
  const Panels panels(shape.value_depth, steps_of(count, pairs), kTileVecs);
  const int64_t whole = pairs ? 0 : shape.value_depth / kTileCols;
  if (whole > 0) pack_whole_values(shape, v, count, whole, packed);
  for (int64_t p = whole; p < panels.count(); ++p) {
    const float* from = v + panels.first_col(p);
    float* panel = packed + panels.offset(p);
    const int64_t cols = panels.cols_of(p), width = panels.vecs_of(p) * kLanes;
    if (pairs)
      pack_pair_panel(from, shape.v.step, 1, count, cols, width, 1,
                      reinterpret_cast<uint16_t*>(panel));
    else
      pack_panel(from, shape.v.step, 1, count, cols, width, 1, panel);
  }
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::attention
