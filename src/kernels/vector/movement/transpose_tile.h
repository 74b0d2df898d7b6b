// SPDX-License-Identifier: Apache-2.0
// Transposes of small tiles of 4-byte elements in registers: kLanes x kLanes where all of it is
// there, plain loops at the borders and for other element sizes.
#pragma once

#include <cstdint>

#include "kernels/simd/shuffles.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

template <class T>
CAMSHAFT_INLINE void transpose_part(const T* from, int64_t from_stride, T* to, int64_t to_stride,
                                    int64_t rows, int64_t cols) {
  for (int64_t c = 0; c < cols; ++c)
    for (int64_t r = 0; r < rows; ++r) to[c * to_stride + r] = from[r * from_stride + c];
}

// At most kLanes x kLanes, through a tile in memory.
static inline void transpose_edge(const float* from, int64_t from_stride, float* to,
                                  int64_t to_stride, int64_t rows, int64_t cols) {
  if (rows * cols < 4 * kLanes) return transpose_part(from, from_stride, to, to_stride, rows, cols);
  alignas(64) float tile[kLanes * kLanes], turned[kLanes * kLanes];
  const M32 in = first_n(static_cast<int>(cols)), out = first_n(static_cast<int>(rows));
  for (int64_t r = 0; r < rows; ++r)
    store(tile + r * kLanes,
          cols == kLanes ? load(from + r * from_stride) : load(from + r * from_stride, in));
  transpose_full(tile, kLanes, turned, kLanes);
  for (int64_t c = 0; c < cols; ++c) {
    if (rows == kLanes)
      store(to + c * to_stride, load(turned + c * kLanes));
    else
      store(to + c * to_stride, load(turned + c * kLanes), out);
  }
}

// kCount vectors to kCount vectors, each lane from any lane of any of them: lane e of output j is
// lane lane[j][e] of input source[j][e].
template <int kCount>
struct Shuffles {
  I32 lane[kCount];
  M32 takes[kCount][kCount];  // [output][input]

  // position(k): where element k of the outputs, end to end, is in the inputs, end to end.
  template <class F>
  explicit Shuffles(F position) {
    for (int j = 0; j < kCount; ++j) {
      alignas(64) int32_t lanes[kLanes];
      alignas(64) float sources[kLanes];
      for (int e = 0; e < kLanes; ++e) {
        const int from = position(j * kLanes + e);
        lanes[e] = from % kLanes, sources[e] = static_cast<float>(from / kLanes);
      }
      lane[j] = iload(lanes);
      for (int k = 0; k < kCount; ++k)
        takes[j][k] = equal(load(sources), set1(static_cast<float>(k)));
    }
  }

  F32 output(int j, const F32 (&in)[kCount]) const {
    F32 result = permute(in[0], lane[j]);
#pragma GCC unroll 4
    for (int k = 1; k < kCount; ++k) result = select(takes[j][k], permute(in[k], lane[j]), result);
    return result;
  }
};

// kRows lines become one, element by element (the planes of an image its pixels).
template <int kRows>
static inline void interleave(const float* from, int64_t from_stride, float* to, int64_t count) {
  const Shuffles<kRows> shuffles([](int k) { return k % kRows * kLanes + k / kRows; });
  int64_t c = 0;
  for (; c + kLanes <= count; c += kLanes) {
    F32 in[kRows];
    for (int r = 0; r < kRows; ++r) in[r] = load(from + r * from_stride + c);
    for (int j = 0; j < kRows; ++j) store(to + c * kRows + j * kLanes, shuffles.output(j, in));
  }
  transpose_part(from + c, from_stride, to + c * kRows, static_cast<int64_t>(kRows),
                 static_cast<int64_t>(kRows), count - c);
}

// The other way round.
template <int kRows>
static inline void deinterleave(const float* from, float* to, int64_t to_stride, int64_t count) {
  const Shuffles<kRows> shuffles([](int k) { return k % kLanes * kRows + k / kLanes; });
  int64_t c = 0;
  for (; c + kLanes <= count; c += kLanes) {
    F32 in[kRows];
    for (int j = 0; j < kRows; ++j) in[j] = load(from + c * kRows + j * kLanes);
    for (int r = 0; r < kRows; ++r) store(to + r * to_stride + c, shuffles.output(r, in));
  }
  transpose_part(from + c * kRows, static_cast<int64_t>(kRows), to + c, to_stride, count - c,
                 static_cast<int64_t>(kRows));
}

// Few contiguous lines on one of the sides, which are all of it. False: it is not so.
static inline bool transpose_narrow(const float* from, int64_t from_stride, float* to,
                                    int64_t to_stride, int64_t rows, int64_t cols) {
  if (to_stride == rows && cols >= 4 * kLanes) {
    if (rows == 2) return interleave<2>(from, from_stride, to, cols), true;
    if (rows == 3) return interleave<3>(from, from_stride, to, cols), true;
    if (rows == 4) return interleave<4>(from, from_stride, to, cols), true;
  }
  if (from_stride == cols && rows >= 4 * kLanes) {
    if (cols == 2) return deinterleave<2>(from, to, to_stride, rows), true;
    if (cols == 3) return deinterleave<3>(from, to, to_stride, rows), true;
    if (cols == 4) return deinterleave<4>(from, to, to_stride, rows), true;
  }
  return false;
}

// rows x cols of any size; every tile of kLanes x kLanes goes through registers. The last one
// overlaps the one before.
static inline void transpose_block(const float* from, int64_t from_stride, float* to,
                                   int64_t to_stride, int64_t rows, int64_t cols) {
  if (transpose_narrow(from, from_stride, to, to_stride, rows, cols)) return;
  for (int64_t col = 0; col < cols; col += kLanes) {
    const int64_t c = col + kLanes <= cols || cols < kLanes ? col : cols - kLanes;
    for (int64_t row = 0; row < rows; row += kLanes) {
      const int64_t r = row + kLanes <= rows || rows < kLanes ? row : rows - kLanes;
      const float* tile = from + r * from_stride + c;
      float* target = to + c * to_stride + r;
      if (rows < kLanes || cols < kLanes)
        transpose_edge(tile, from_stride, target, to_stride, rows - r < kLanes ? rows - r : kLanes,
                       cols - c < kLanes ? cols - c : kLanes);
      else
        transpose_full(tile, from_stride, target, to_stride);
      // Far rows are as many streams as there are rows, more than a processor follows by itself
      // (128 of 7 KiB, from L3: 0.8 ms, so 0.3).
      if (from_stride >= 256)
        for (int64_t k = 0; k < kLanes; ++k)
          __builtin_prefetch(tile + k * from_stride + 2 * kLanes);
    }
  }
}

// Bytes: 16 x 16 in registers. Interleaving line k with line k + 8, four times over, turns the
// tile.
using Bytes16 __attribute__((vector_size(16))) = uint8_t;

CAMSHAFT_INLINE void transpose_full(const uint8_t* from, int64_t from_stride, uint8_t* to,
                                    int64_t to_stride) {
  Bytes16 lines[16], turned[16];
#pragma GCC unroll 16
  for (int k = 0; k < 16; ++k) __builtin_memcpy(&lines[k], from + k * from_stride, 16);
#pragma GCC unroll 4
  for (int stage = 0; stage < 4; ++stage) {
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) {
      turned[2 * k] = __builtin_shufflevector(lines[k], lines[k + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4,
                                              20, 5, 21, 6, 22, 7, 23);
      turned[2 * k + 1] = __builtin_shufflevector(lines[k], lines[k + 8], 8, 24, 9, 25, 10, 26, 11,
                                                  27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
#pragma GCC unroll 16
    for (int k = 0; k < 16; ++k) lines[k] = turned[k];
  }
#pragma GCC unroll 16
  for (int k = 0; k < 16; ++k) __builtin_memcpy(to + k * to_stride, &lines[k], 16);
}

// The same of 16-bit elements: 8 x 8.
using Words8 __attribute__((vector_size(16))) = uint16_t;

CAMSHAFT_INLINE void transpose_full(const uint16_t* from, int64_t from_stride, uint16_t* to,
                                    int64_t to_stride) {
  Words8 lines[8], turned[8];
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) __builtin_memcpy(&lines[k], from + k * from_stride, 16);
#pragma GCC unroll 3
  for (int stage = 0; stage < 3; ++stage) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      turned[2 * k] = __builtin_shufflevector(lines[k], lines[k + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      turned[2 * k + 1] =
          __builtin_shufflevector(lines[k], lines[k + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) lines[k] = turned[k];
  }
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) __builtin_memcpy(to + k * to_stride, &lines[k], 16);
}

// Tiles of kTile x kTile; the last ones overlap those before.
template <int kTile, class T>
static inline void transpose_tiles(const T* from, int64_t from_stride, T* to, int64_t to_stride,
                                   int64_t rows, int64_t cols) {
  if (rows < kTile || cols < kTile)
    return transpose_part(from, from_stride, to, to_stride, rows, cols);
  for (int64_t col = 0; col < cols; col += kTile) {
    const int64_t c = col + kTile <= cols ? col : cols - kTile;
    for (int64_t row = 0; row < rows; row += kTile) {
      const int64_t r = row + kTile <= rows ? row : rows - kTile;
      transpose_full(from + r * from_stride + c, from_stride, to + c * to_stride + r, to_stride);
    }
  }
}

static inline void transpose_block(const uint8_t* from, int64_t from_stride, uint8_t* to,
                                   int64_t to_stride, int64_t rows, int64_t cols) {
  transpose_tiles<16>(from, from_stride, to, to_stride, rows, cols);
}
static inline void transpose_block(const uint16_t* from, int64_t from_stride, uint16_t* to,
                                   int64_t to_stride, int64_t rows, int64_t cols) {
  transpose_tiles<8>(from, from_stride, to, to_stride, rows, cols);
}

// Other element sizes: blocks whose lines stay in L1.
template <class T>
static inline void transpose_block(const T* from, int64_t from_stride, T* to, int64_t to_stride,
                                   int64_t rows, int64_t cols) {
  constexpr int64_t kBlock = 32;
  for (int64_t c = 0; c < cols; c += kBlock)
    for (int64_t r = 0; r < rows; r += kBlock)
      transpose_part(from + r * from_stride + c, from_stride, to + c * to_stride + r, to_stride,
                     rows - r < kBlock ? rows - r : kBlock, cols - c < kBlock ? cols - c : kBlock);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
