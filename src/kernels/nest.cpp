// SPDX-License-Identifier: Apache-2.0
#include "kernels/nest.h"

#include <algorithm>
#include <utility>

namespace camshaft::kernels {

void add_tensor(Nest& nest, const TensorView& view) {
  const int missing = nest.rank - view.rank;
  for (int d = 0; d < nest.rank; ++d) {
    const int own = d - missing;
    nest.strides[nest.tensors][d] = own < 0 || view.extents[own] == 1 ? 0 : view.strides[own];
  }
  ++nest.tensors;
}

Nest make_nest(const TensorView& first) {
  Nest nest;
  nest.rank = first.rank;
  for (int d = 0; d < first.rank; ++d) nest.extents[d] = first.extents[d];
  add_tensor(nest, first);
  return nest;
}

void move_dimension(Nest& nest, int from, int to) {
  nest.extents[to] = nest.extents[from];
  for (int t = 0; t < nest.tensors; ++t) nest.strides[t][to] = nest.strides[t][from];
}

void swap_dimensions(Nest& nest, int a, int b) {
  std::swap(nest.extents[a], nest.extents[b]);
  for (int t = 0; t < nest.tensors; ++t) std::swap(nest.strides[t][a], nest.strides[t][b]);
}

void append_unit_dimension(Nest& nest) {
  nest.extents[nest.rank] = 1;
  for (int t = 0; t < nest.tensors; ++t) nest.strides[t][nest.rank] = t == 0 ? 1 : 0;
  ++nest.rank;
}

void collapse(Nest& nest) {
  int kept = 0;
  for (int d = 0; d < nest.rank; ++d)
    if (nest.extents[d] != 1) move_dimension(nest, d, kept++);
  nest.rank = kept;
  for (int d = 1; d < nest.rank; ++d)
    for (int k = d; k > 0 && nest.strides[0][k - 1] < nest.strides[0][k]; --k)
      swap_dimensions(nest, k - 1, k);
  kept = 0;
  for (int d = 1; d < nest.rank; ++d) {
    bool merges = true;
    for (int t = 0; t < nest.tensors; ++t)
      merges &= nest.strides[t][kept] == nest.strides[t][d] * nest.extents[d];
    if (merges) {
      const int64_t extent = nest.extents[kept] * nest.extents[d];
      move_dimension(nest, d, kept);
      nest.extents[kept] = extent;
    } else {
      move_dimension(nest, d, ++kept);
    }
  }
  if (nest.rank > 0) nest.rank = kept + 1;
  if (nest.rank == 0 || nest.strides[0][nest.rank - 1] != 1) append_unit_dimension(nest);
  if (nest.rank == 1) {
    append_unit_dimension(nest);
    swap_dimensions(nest, 0, 1);
    for (int t = 0; t < nest.tensors; ++t) nest.strides[t][0] = 0;
  }
}

void visit_tiles(const Nest& nest, ThreadPool* pool, double predicted_us, TileBody body) {
  const int64_t rows = nest.outer() * nest.rows(), cols = nest.cols();
  if (rows == 0 || cols == 0) return;
  // Kernels predict what elements cost; a row that is begun costs as much as some of these.
  constexpr double kRowUs = 0.003;
  predicted_us += static_cast<double>(rows) * kRowUs;
  const int64_t threads = pool == nullptr || predicted_us < kThreadedUs ? 1 : pool->threads();
  if (threads == 1 && nest.rank == 2) {  // one tile: 20 ns less for the smallest layers
    const int64_t offsets[kMaxNestTensors] = {};
    return body.call(body.body, offsets, rows, cols);
  }
  constexpr int64_t kBlock = 256;
  const bool by_rows = threads == 1 || rows >= 4 * threads || cols < kBlock * threads;
  const int64_t units = by_rows ? rows : (cols + kBlock - 1) / kBlock;
  split(pool, units, predicted_us, [&](int, int64_t first, int64_t last) {
    const int64_t first_row = by_rows ? first : 0, last_row = by_rows ? last : rows;
    const int64_t begin = by_rows ? 0 : first * kBlock;
    const int64_t end = by_rows ? cols : std::min(last * kBlock, cols);
    for_rows(nest, first_row, last_row, [&](const int64_t* offsets, int64_t run) {
      int64_t shifted[kMaxNestTensors];
      for (int t = 0; t < nest.tensors; ++t) shifted[t] = offsets[t] + begin * nest.col_stride(t);
      body.call(body.body, shifted, run, end - begin);
    });
  });
}

}  // namespace camshaft::kernels
