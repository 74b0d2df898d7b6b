// SPDX-License-Identifier: Apache-2.0
// Loop nests over strided tensors of one shape: dimensions in memory order of the first tensor,
// neighbours merged where every tensor lies so, so that most layers become one or two long loops.
// What makes and visits them is compiled once, not in every kernel of every instruction set.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/kernel.h"

namespace camshaft::kernels {

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
void add_tensor(Nest& nest, const TensorView& view);
Nest make_nest(const TensorView& first);
void move_dimension(Nest& nest, int from, int to);
void swap_dimensions(Nest& nest, int a, int b);
void append_unit_dimension(Nest& nest);

// Drops extents of 1, sorts by the first tensor's strides (largest first) and merges neighbours.
// Afterwards rank ≥ 2, and the last dimension is contiguous in the first tensor.
void collapse(Nest& nest);

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
  if (pool == nullptr || predicted_us < kThreadedUs) return ThreadPool::on_caller(count, body);
  pool->parallel_ranges(count, body);
}

// A function of tiles, called where it is.
struct TileBody {
  void (*call)(const void* body, const int64_t* offsets, int64_t rows, int64_t cols);
  const void* body;
};
void visit_tiles(const Nest& nest, ThreadPool* pool, double predicted_us, TileBody body);

// Visits the whole nest as tiles body(offsets, rows, cols), over threads: by rows, or by columns
// where there are few rows.
template <class Body>
static inline void for_tiles(const Nest& nest, ThreadPool* pool, double predicted_us,
                             const Body& body) {
  const auto call = [](const void* b, const int64_t* offsets, int64_t rows, int64_t cols) {
    (*static_cast<const Body*>(b))(offsets, rows, cols);
  };
  visit_tiles(nest, pool, predicted_us, {call, &body});
}

}  // namespace camshaft::kernels
