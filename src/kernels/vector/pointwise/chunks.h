// SPDX-License-Identifier: Apache-2.0
// Elementwise operators as plain loops: operands are brought side by side, chunk by chunk, whatever
// their strides.
#pragma once

#include "kernels/nest.h"
#include "kernels/vector/counts.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// Elements of some rows of a tile.
struct Block {
  int64_t row, col, rows, cols;
  bool follows;  // another block of no fewer rows from the same column on

  int64_t count() const { return rows * cols; }
};

// 2 KB of an operand: what is done once for a chunk is lost in its loops, its buffers stay in L1.
template <class T>
inline constexpr int64_t kChunkOf = 2048 / static_cast<int64_t>(sizeof(T));

// A block's elements next to each other: where they lie, or copied to `buffer`.
// `data`: tensor t from the tile on.
template <class T>
CAMSHAFT_INLINE const T* side_by_side(const Nest& nest, int t, const T* data, Block block,
                                      T* buffer) {
  const int64_t row_step = nest.row_stride(t), step = nest.col_stride(t), rows = block.rows,
                cols = block.cols;
  const T* from = data + block.row * row_step + block.col * step;
  if (step == 1 && (rows == 1 || row_step == cols)) return from;
  if (row_step == 0 && block.follows) return buffer;
  T* to = buffer;
  for (int64_t row = 0; row < rows; ++row, from += row_step, to += cols) {
    if (step == 0)
      for (int64_t k = 0; k < cols; ++k) to[k] = *from;
    else
      for (int64_t k = 0; k < cols; ++k) to[k] = from[k * step];
  }
  return buffer;
}

// Calls body(block) for blocks of up to `chunk` elements of a tile. Short rows are taken together
// where the output's follow each other: each by itself is 10 ns.
template <class Body>
CAMSHAFT_INLINE void for_blocks(const Nest& nest, int64_t rows, int64_t cols, int64_t chunk,
                                const Body& body) {
  const int64_t together =
      nest.row_stride(0) == cols && cols > 0 && cols < chunk ? chunk / cols : 1;
  for (int64_t row = 0; row < rows; row += together)
    for (int64_t col = 0; col < cols; col += chunk)
      body(Block{row, col, smaller(together, rows - row), smaller(chunk, cols - col),
                 row > 0 && together > 1});
}

// Calls body(y, x..., count) for blocks of a tile of one or two operands (the first stands for the
// second, where there is none); y has step 1 (collapse() sees to it, or its rows have one element).
template <class To, class T, class Body>
CAMSHAFT_INLINE void for_chunks(const Nest& nest, To* y, const T* a, const T* b, int64_t rows,
                                int64_t cols, const Body& body) {
  T buffers[2][kChunkOf<T>];
  for_blocks(nest, rows, cols, kChunkOf<T>, [&](Block block) {
    const T* left = side_by_side(nest, 1, a, block, buffers[0]);
    const T* right = nest.tensors > 2 ? side_by_side(nest, 2, b, block, buffers[1]) : left;
    body(y + block.row * nest.row_stride(0) + block.col, left, right, block.count());
  });
}

template <class T, class U, class Op>
CAMSHAFT_INLINE void map(const T* a, const T* b, U* y, int64_t count, const Op& op) {
#pragma GCC ivdep  // y may be a or b, element for element
  for (int64_t k = 0; k < count; ++k) y[k] = static_cast<U>(op(a[k], b[k]));
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
