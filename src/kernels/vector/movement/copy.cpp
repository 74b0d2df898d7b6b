// SPDX-License-Identifier: Apache-2.0
// Strided copies. After merging dimensions in the order of the target, a copy is rows of contiguous
// bytes, or of one repeated element, or a transposition of the two dimensions in which target and
// source are contiguous, or (rare) elements one by one.
#include "kernels/vector/movement/copy.h"

#include "kernels/vector/movement/copy_bytes.h"
#include "kernels/vector/movement/transpose_tile.h"
#include "kernels/vector/shares.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

constexpr double kCopyBytesPerUs = 20000;

template <class T>
void copy_tile(const Nest& nest, const T* from, T* to, int64_t rows, int64_t cols) {
  const int64_t from_row = nest.row_stride(1), to_row = nest.row_stride(0),
                step = nest.col_stride(1);
  if (cols == 1) {
    for (int64_t row = 0; row < rows; ++row) to[row * to_row] = from[row * from_row];
    return;
  }
  for (int64_t row = 0; row < rows; ++row, from += from_row, to += to_row) {
    if (step == 1) {
      copy_bytes(reinterpret_cast<const char*>(from), reinterpret_cast<char*>(to),
                 cols * static_cast<int64_t>(sizeof(T)));
    } else if (step == 0) {
      const T value = *from;
      for (int64_t col = 0; col < cols; ++col) to[col] = value;
    } else {
      for (int64_t col = 0; col < cols; ++col) to[col] = from[col * step];
    }
  }
}

// Moves the dimension in which the source is contiguous next to the last one; false: there is none.
bool make_transposition(Nest& nest) {
  const int last = nest.rank - 1;
  if (nest.strides[1][last] <= 1) return false;
  for (int d = last - 1; d >= 0; --d) {
    if (nest.strides[1][d] != 1) continue;
    for (int k = d; k + 1 < last; ++k) swap_dimensions(nest, k, k + 1);
    return true;
  }
  return false;
}

// Rows [row, row + rows) by columns [col, col + cols) of a plane.
template <class T>
void transpose_part_of_plane(const Nest& nest, const T* from, T* to, int64_t plane, int64_t row,
                             int64_t rows, int64_t col, int64_t cols) {
  from += row + col * nest.col_stride(1);
  to += row * nest.row_stride(0) + col;
  for (int d = nest.rank - 3; d >= 0; --d) {
    const int64_t index = plane % nest.extents[d];
    plane /= nest.extents[d];
    from += index * nest.strides[1][d];
    to += index * nest.strides[0][d];
  }
  // In the source's view: `cols` lines of `rows` contiguous elements.
  transpose_block(from, nest.col_stride(1), to, nest.row_stride(0), cols, rows);
}

// nest.rows() is contiguous in the source, nest.cols() in the target. Few planes of few rows are
// cut along the columns, too.
template <class T>
void transpose_nest(const Nest& nest, const T* from, T* to, ThreadPool* pool, double us) {
  constexpr int64_t kRows = 16, kCols = 64;
  const int64_t blocks = ceil_div(nest.rows(), kRows),
                threads = pool == nullptr || us < kThreadedUs ? 1 : pool->threads();
  const Line line = even_line(nest.outer() * blocks, ceil_div(nest.cols(), kCols), threads);
  split(pool, line.places(), us, [&](int, int64_t first_place, int64_t end_place) {
    line.for_rectangles(
        first_place, end_place, [&](int64_t first, int64_t last, int64_t inner, int64_t end_inner) {
          const int64_t col = inner * kCols, cols = smaller(end_inner * kCols, nest.cols()) - col;
          while (first < last) {
            const int64_t plane = first / blocks, row = first % blocks * kRows,
                          end = smaller(last, (plane + 1) * blocks),
                          rows = smaller((end - first) * kRows, nest.rows() - row);
            transpose_part_of_plane(nest, from, to, plane, row, rows, col, cols);
            first = end;
          }
        });
  });
}

template <class T>
void copy_elements(const CopyPlan& plan, const void* from, void* to, ThreadPool* pool) {
  const T* source = static_cast<const T*>(from);
  T* target = static_cast<T*>(to);
  const Nest& nest = plan.nest;
  if (plan.transposes) return transpose_nest(nest, source, target, pool, plan.predicted_us);
  for_tiles(nest, pool, plan.predicted_us, [&](const int64_t* offsets, int64_t rows, int64_t cols) {
    copy_tile(nest, source + offsets[1], target + offsets[0], rows, cols);
  });
}

int64_t elements_of(const Nest& nest) {
  int64_t count = 1;
  for (int d = 0; d < nest.rank; ++d) count *= nest.extents[d];
  return count;
}

}  // namespace

CopyPlan plan_copy(const Nest& nest, int64_t element_bytes) {
  CopyPlan plan{nest, elements_of(nest), element_bytes};
  if (plan.elements == 0) return plan;
  collapse(plan.nest);
  plan.transposes = make_transposition(plan.nest);
  plan.predicted_us = static_cast<double>(2 * plan.elements * element_bytes) / kCopyBytesPerUs;
  return plan;
}

void run_copy(const CopyPlan& plan, const void* from, void* to, ThreadPool* pool) {
  if (plan.elements == 0) return;
  switch (plan.element_bytes) {
    case 1:
      return copy_elements<uint8_t>(plan, from, to, pool);
    case 2:
      return copy_elements<uint16_t>(plan, from, to, pool);
    case 4:
      return copy_elements<float>(plan, from, to, pool);
    default:
      return copy_elements<uint64_t>(plan, from, to, pool);
  }
}

void copy_nest(const Nest& nest, const void* from, void* to, int64_t element_bytes,
               ThreadPool* pool) {
  run_copy(plan_copy(nest, element_bytes), from, to, pool);
}

void copy_view(const TensorView& from, const TensorView& to, ThreadPool* pool) {
  Nest nest = make_nest(to);
  add_tensor(nest, from);
  copy_nest(nest, from.data, to.data, bytes_of(to.type), pool);
}

void fill_view(const TensorView& to, const void* value, ThreadPool* pool) {
  TensorView one;
  one.rank = 0;
  one.type = to.type;
  one.data = const_cast<void*>(value);
  copy_view(one, to, pool);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
