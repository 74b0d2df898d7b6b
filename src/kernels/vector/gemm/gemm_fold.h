// SPDX-License-Identifier: Apache-2.0
// Register tiles for few columns: with fewer columns than lanes, a vector holds kFold steps of K of
// each column. A gives kFold neighbouring floats per load, the lanes of a column are added at the
// end.
#pragma once

#include "kernels/vector/gemm/gemm_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// Rows of B that a segment of `length` takes: whole groups of `fold`, then the rest one by one.
CAMSHAFT_INLINE int64_t folded_rows(int64_t length, int64_t fold) {
  return length / fold + length % fold;
}

// Segments count floats of A and folded rows of B, [vecs][kLanes / fold columns][fold]; in the rows
// of the rest only the first lane of a column counts. `fold` is a power of two from 2 to kLanes;
// above 4, vecs is 1. tile.start.bias needs only `cols` values.
TileKernel fold_kernel(int fold, int vecs, int rows);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
