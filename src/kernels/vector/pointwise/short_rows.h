// SPDX-License-Identifier: Apache-2.0
// Rows of a few elements behind broadcast or sliced operands. A row costs 20 ns whatever its
// length, so the operands of a few hundred elements are laid end to end, as the output already
// lies, and the program sees one long row. Where planes are tiny, too (matrices of 4 by 4 times a
// row or a column of each), a table says where the elements of a block lie from its first one.
#pragma once

#include "kernels/nest.h"
#include "kernels/simd/simd.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/program/program_tile.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// At four vectors a row the program's own work is what takes the time.
inline constexpr int64_t kShortRow = 32;
inline constexpr int64_t kShortRows = 4;  // fewer are not worth the copies
inline constexpr int64_t kGathered = 512;

// Room for what the last vector of the last row writes beyond its end.
using GatheredRow = float[kGathered + kLanes];

// Does tensor `t` lie end to end?
static inline bool is_dense(const Nest& nest, int t) {
  int64_t stride = 1;
  for (int d = nest.rank - 1; d >= 0; stride *= nest.extents[d--])
    if (nest.strides[t][d] != stride && nest.extents[d] != 1) return false;
  return true;
}

// Is every plane of [rows, cols] of tensor `t` the same one?
static inline bool is_one_plane(const Nest& nest, int t) {
  for (int d = 0; d + 2 < nest.rank; ++d)
    if (nest.strides[t][d] != 0) return false;
  return true;
}

// Whether the rows of `nest` (its inputs are floats or bools) are better gathered.
static inline bool has_short_rows(const Nest& nest) {
  return nest.cols() > 0 && nest.cols() < kShortRow && nest.outer() * nest.rows() >= kShortRows &&
         is_dense(nest, 0);
}

// Rows that are gathered together: whole planes where they are small.
static inline int64_t rows_together(const Nest& nest) {
  const int64_t fit = kGathered / nest.cols();
  return fit < nest.rows() ? fit : fit / nest.rows() * nest.rows();
}

static inline int64_t largest_divisor(int64_t count, int64_t most) {
  int64_t divisor = smaller(count, most);
  while (count % divisor != 0) --divisor;
  return divisor;
}

// Rows of blocks all of which lie alike, from their first elements on: a block begins where a
// dimension does. 0: blocks too short for a table, or planes long enough to be copied by rows (8400
// rows of 4 times a column: 12.7 us, by a table 21; 1024 matrices of 4 by 4 less a row of each,
// exp: 19 us by a table, 118 row by row).
static inline int64_t rows_alike(const Nest& nest) {
  constexpr int64_t kLeastTogether = 64, kSmallPlane = 64;  // elements
  const int64_t plane = nest.rows() * nest.cols();
  if (plane >= kSmallPlane) return 0;
  int64_t together = 1;
  for (int d = nest.rank - 2; d >= 0; --d) {
    const int64_t extent = nest.extents[d], fit = kGathered / (together * nest.cols());
    if (extent <= fit) {
      together *= extent;
      continue;
    }
    together *= d == 0 ? fit : largest_divisor(extent, fit);
    break;
  }
  return together * nest.cols() < kLeastTogether ? 0 : together;
}

// x[r, 0 … cols) = one value.
static inline void repeat_values(const float* x, int64_t stride, int64_t rows, int64_t cols,
                                 float* to) {
  for (int64_t r = 0; r < rows; ++r, to += cols) {
    const F32 value = set1(x[r * stride]);
    for (int64_t c = 0; c < cols; c += kLanes) store(to + c, value);
  }
}

// A row's last vector is loaded up to its end and stored whole: the next row overwrites the rest.
static inline void copy_rows(const float* x, int64_t stride, int64_t rows, int64_t cols,
                             float* to) {
  const int64_t whole = cols / kLanes * kLanes;
  const M32 rest = first_n(static_cast<int>(cols - whole));
  for (int64_t r = 0; r < rows; ++r, to += cols) {
    const float* from = x + r * stride;
    for (int64_t c = 0; c < whole; c += kLanes) store(to + c, load(from + c));
    if (whole < cols) store(to + whole, load(from + whole, rest));
  }
}

// True is 1, as programs have it.
static inline void copy_bools(const TileOperand& x, int64_t rows, int64_t cols, float* to) {
  const auto* data = static_cast<const uint8_t*>(x.data);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      to[r * cols + c] = data[r * x.row_stride + c * x.col_stride] != 0 ? 1.0f : 0.0f;
}

static inline void gather_elements(const float* x, const int32_t* places, int64_t count,
                                   float* to) {
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) store(to + k, load_at(x, iload(places + k)));
  for (; k < count; ++k) to[k] = x[places[k]];  // a block may end where the tensor does
}

static inline void gather_rows(const TileOperand& x, int64_t rows, int64_t cols, float* to) {
  if (x.type == DataType::kBool) return copy_bools(x, rows, cols, to);
  const auto* data = static_cast<const float*>(x.data);
  if (x.col_stride == 0) return repeat_values(data, x.row_stride, rows, cols, to);
  if (x.col_stride == 1) return copy_rows(data, x.row_stride, rows, cols, to);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) to[r * cols + c] = data[r * x.row_stride + c * x.col_stride];
}

// What is known of the inputs before they have addresses: input k is tensor k + 1 of the nest.
struct ShortRows {
  int64_t together = 0;              // rows of a block; 0: they are not gathered
  int64_t rows = 0;                  // of all planes
  bool dense[kMaxNestTensors] = {};  // floats that need no copy
  bool same[kMaxNestTensors] = {};   // in every block
  bool has_places = false;           // else rows are copied
  // Where elements that are not dense lie from a block's first one.
  const int32_t* places[kMaxNestTensors] = {};

  ShortRows() = default;
  // `alike`: rows of a block that tables are made for, or 0.
  ShortRows(const Nest& nest, const DataType* types, int64_t alike, PreparedKernel& kernel)
      : together(alike > 0 ? alike : rows_together(nest)), rows(nest.outer() * nest.rows()) {
    const bool whole_planes = together % nest.rows() == 0;
    for (int k = 0; k + 1 < nest.tensors; ++k) {
      dense[k] = types[k + 1] == DataType::kFloat && is_dense(nest, k + 1);
      same[k] = is_one_plane(nest, k + 1) && (whole_planes || nest.row_stride(k + 1) == 0);
    }
    has_places = alike > 0;
    if (has_places) set_places(nest, kernel);
  }

 private:
  void set_places(const Nest& nest, PreparedKernel& kernel) {
    const int64_t cols = nest.cols();
    for (int k = 0; k + 1 < nest.tensors; ++k) {
      if (dense[k]) continue;
      int32_t* table = keep_array<int32_t>(kernel, kGathered);
      places[k] = table;
      for_rows(nest, 0, smaller(together, rows), [&](const int64_t* offsets, int64_t count) {
        for (int64_t r = 0; r < count; ++r)
          for (int64_t c = 0; c < cols; ++c)
            *table++ = static_cast<int32_t>(offsets[k + 1] + r * nest.row_stride(k + 1) +
                                            c * nest.col_stride(k + 1));
      });
    }
  }
};

// body(gathered, offset, count) for the blocks [first, last): gathered[k] is input k as one row of
// `count` elements, `offset` where they begin in the output. `at`(tensor, offset): the address of
// an element.
template <class Address, class Body>
static inline void for_gathered(const Nest& nest, const ShortRows& known, const DataType* types,
                                int64_t first, int64_t last, const Address& at, const Body& body) {
  GatheredRow scratch[kMaxNestTensors];
  TileOperand gathered[kMaxNestTensors];
  const int64_t cols = nest.cols();
  for (int64_t block = first; block < last; ++block) {
    const int64_t row = block * known.together;
    int64_t count = 0;
    if (known.has_places) {
      count = smaller(known.together, known.rows - row) * cols;
      for_rows(nest, row, row + 1, [&](const int64_t* offsets, int64_t) {
        for (int k = 0; k + 1 < nest.tensors; ++k) {
          const std::byte* data = at(k + 1, offsets[k + 1]);
          gathered[k] = {known.dense[k] ? static_cast<const void*>(data) : scratch[k], 0, 1};
          if (!known.dense[k] && (block == first || !known.same[k]))
            gather_elements(reinterpret_cast<const float*>(data), known.places[k], count,
                            scratch[k]);
        }
      });
      body(gathered, row * cols, count);
      continue;
    }
    for_rows(nest, row, smaller(row + known.together, known.rows),
             [&](const int64_t* offsets, int64_t rows) {
               for (int k = 0; k + 1 < nest.tensors; ++k) {
                 const std::byte* data = at(k + 1, offsets[k + 1]);
                 if (count == 0) gathered[k] = {known.dense[k] ? data : nullptr, 0, 1};
                 if (known.dense[k]) continue;
                 gathered[k].data = scratch[k];
                 if (block == first || !known.same[k])
                   gather_rows({data, nest.row_stride(k + 1), nest.col_stride(k + 1), types[k + 1]},
                               rows, cols, scratch[k] + count);
               }
               count += rows * cols;
             });
    body(gathered, row * cols, count);
  }
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
