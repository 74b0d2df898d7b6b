// SPDX-License-Identifier: Apache-2.0
// Loop nests over strided tensors of one shape: dimensions in memory order of the first tensor,
// neighbours merged where every tensor lies so, so that most layers become one or two long loops.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/kernel.h"
#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

inline constexpr int kMaxNestTensors = 16;

struct Nest {
  int tensors = 0, rank = 0;
  int64_t extents[ir::kMaxRank + 2];
  int64_t strides[kMaxNestTensors][ir::kMaxRank + 2];  // 0: broadcast

  int64_t rows() const { return extents[rank - 2]; }
  int64_t cols() const { return extents[rank - 1]; }
  int64_t row_stride(int tensor) const { return strides[tensor][rank - 2]; }
  int64_t col_stride(int tensor) const { return strides[tensor][rank - 1]; }
  int64_t outer() const {  // how many [rows, cols] planes
    int64_t count = 1;
    for (int d = 0; d + 2 < rank; ++d) count *= extents[d];
    return count;
  }
};

// Adds `view`, broadcast to the nest's shape (numpy rules; axes of the nest as its first tensor has
// them).
static inline void add_tensor(Nest& nest, const TensorView& view) {
  const int missing = nest.rank - view.rank;
  for (int d = 0; d < nest.rank; ++d) {
    const int own = d - missing;
    nest.strides[nest.tensors][d] = own < 0 || view.extents[own] == 1 ? 0 : view.strides[own];
  }
  ++nest.tensors;
}

static inline Nest make_nest(const TensorView& first) {
  Nest nest;
  nest.rank = first.rank;
  for (int d = 0; d < first.rank; ++d) nest.extents[d] = first.extents[d];
  add_tensor(nest, first);
  return nest;
}

static inline void move_dimension(Nest& nest, int from, int to) {
  nest.extents[to] = nest.extents[from];
  for (int t = 0; t < nest.tensors; ++t) nest.strides[t][to] = nest.strides[t][from];
}

static inline void swap_dimensions(Nest& nest, int a, int b) {
  const auto swap = [](int64_t& x, int64_t& y) {
    const int64_t keep = x;
    x = y;
    y = keep;
  };
  swap(nest.extents[a], nest.extents[b]);
  for (int t = 0; t < nest.tensors; ++t) swap(nest.strides[t][a], nest.strides[t][b]);
}

static inline void append_unit_dimension(Nest& nest) {
  nest.extents[nest.rank] = 1;
  for (int t = 0; t < nest.tensors; ++t) nest.strides[t][nest.rank] = t == 0 ? 1 : 0;
  ++nest.rank;
}

// Drops extents of 1, sorts by the first tensor's strides (largest first) and merges neighbours.
// Afterwards rank ≥ 2, and the last dimension is contiguous in the first tensor.
static inline void collapse(Nest& nest) {
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

// Calls body(offsets, rows) for the rows [first, last) of all planes laid end to end: offsets[t] is
// the first element of tensor t, `rows` a run of rows inside one plane.
template <class Body>
static inline void for_rows(const Nest& nest, int64_t first, int64_t last, const Body& body) {
  const int64_t rows = nest.rows();
  int64_t index[ir::kMaxRank + 2] = {};
  int64_t plane = first / rows, row = first % rows;
  int64_t rest = plane;
  int64_t base[kMaxNestTensors] = {};
  for (int d = nest.rank - 3; d >= 0; --d) {
    index[d] = rest % nest.extents[d];
    rest /= nest.extents[d];
    for (int t = 0; t < nest.tensors; ++t) base[t] += index[d] * nest.strides[t][d];
  }
  for (int64_t done = first; done < last;) {
    const int64_t run = rows - row < last - done ? rows - row : last - done;
    int64_t offsets[kMaxNestTensors] = {};
    for (int t = 0; t < nest.tensors; ++t) offsets[t] = base[t] + row * nest.row_stride(t);
    body(offsets, run);
    done += run;
    row = 0;
    for (int d = nest.rank - 3; d >= 0; --d) {
      if (++index[d] < nest.extents[d]) {
        for (int t = 0; t < nest.tensors; ++t) base[t] += nest.strides[t][d];
        break;
      }
      for (int t = 0; t < nest.tensors; ++t) base[t] -= (nest.extents[d] - 1) * nest.strides[t][d];
      index[d] = 0;
    }
  }
}

// Work shorter than this is not worth waking other threads for.
inline constexpr double kThreadedUs = 8;

// body(worker, first, last) over [0, count): on all threads when the whole is predicted to take
// long enough.
template <class Body>
static inline void split(ThreadPool* pool, int64_t count, double predicted_us, const Body& body) {
  if (count <= 0) return;
  if (pool == nullptr || predicted_us < kThreadedUs) return body(0, int64_t{0}, count);
  pool->parallel_ranges(count, body);
}

// Visits the whole nest as tiles body(offsets, rows, cols), over threads: by rows, or by columns
// where there are few rows.
template <class Body>
static inline void for_tiles(const Nest& nest, ThreadPool* pool, double predicted_us,
                             const Body& body) {
  const int64_t rows = nest.outer() * nest.rows(), cols = nest.cols();
  if (rows == 0 || cols == 0) return;
  const int64_t threads = pool == nullptr ? 1 : pool->threads();
  constexpr int64_t kBlock = 256;
  if (threads == 1 || predicted_us < kThreadedUs || rows >= 4 * threads ||
      cols < kBlock * threads) {
    split(pool, rows, predicted_us, [&](int, int64_t first, int64_t last) {
      for_rows(nest, first, last,
               [&](const int64_t* offsets, int64_t run) { body(offsets, run, cols); });
    });
    return;
  }
  split(pool, (cols + kBlock - 1) / kBlock, predicted_us, [&](int, int64_t first, int64_t last) {
    const int64_t begin = first * kBlock, end = last * kBlock < cols ? last * kBlock : cols;
    for_rows(nest, 0, rows, [&](const int64_t* offsets, int64_t run) {
      int64_t shifted[kMaxNestTensors] = {};
      for (int t = 0; t < nest.tensors; ++t) shifted[t] = offsets[t] + begin * nest.col_stride(t);
      body(shifted, run, end - begin);
    });
  });
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
