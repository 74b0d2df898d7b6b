// SPDX-License-Identifier: Apache-2.0
// Transposes of small tiles of 4-byte elements in registers: kLanes x kLanes where all of it is
// there, plain loops at the borders and for other element sizes.
#pragma once

#include <cstdint>

#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

#if defined(CAMSHAFT_TARGET_avx512)
// to[c * to_stride + r] = from[r * from_stride + c], 16 x 16, in four stages: pairs of rows, pairs
// of pairs, then 128-bit lanes.
CAMSHAFT_INLINE void transpose_full(const float* from, int64_t from_stride, float* to,
                                    int64_t to_stride) {
  __m512 r[16], t[16];
#pragma GCC unroll 16
  for (int k = 0; k < 16; ++k) r[k] = _mm512_loadu_ps(from + k * from_stride);
#pragma GCC unroll 8
  for (int k = 0; k < 16; k += 2) {
    t[k] = _mm512_unpacklo_ps(r[k], r[k + 1]);
    t[k + 1] = _mm512_unpackhi_ps(r[k], r[k + 1]);
  }
  const auto low = [](__m512 a, __m512 b) {
    return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
  };
  const auto high = [](__m512 a, __m512 b) {
    return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
  };
#pragma GCC unroll 4
  for (int k = 0; k < 16; k += 4) {  // r[k + j], lane L: column 4 L + j of rows k … k + 3
    r[k] = low(t[k], t[k + 2]);
    r[k + 1] = high(t[k], t[k + 2]);
    r[k + 2] = low(t[k + 1], t[k + 3]);
    r[k + 3] = high(t[k + 1], t[k + 3]);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512 even_top = _mm512_shuffle_f32x4(r[j], r[4 + j], 0x88),
                 odd_top = _mm512_shuffle_f32x4(r[j], r[4 + j], 0xdd);
    const __m512 even_low = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0x88),
                 odd_low = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0xdd);
    _mm512_storeu_ps(to + j * to_stride, _mm512_shuffle_f32x4(even_top, even_low, 0x88));
    _mm512_storeu_ps(to + (4 + j) * to_stride, _mm512_shuffle_f32x4(odd_top, odd_low, 0x88));
    _mm512_storeu_ps(to + (8 + j) * to_stride, _mm512_shuffle_f32x4(even_top, even_low, 0xdd));
    _mm512_storeu_ps(to + (12 + j) * to_stride, _mm512_shuffle_f32x4(odd_top, odd_low, 0xdd));
  }
}
#elif defined(CAMSHAFT_TARGET_avx2)
CAMSHAFT_INLINE void transpose_full(const float* from, int64_t from_stride, float* to,
                                    int64_t to_stride) {
  __m256 r[8], t[8];
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) r[k] = _mm256_loadu_ps(from + k * from_stride);
#pragma GCC unroll 4
  for (int k = 0; k < 8; k += 2) {
    t[k] = _mm256_unpacklo_ps(r[k], r[k + 1]);
    t[k + 1] = _mm256_unpackhi_ps(r[k], r[k + 1]);
  }
#pragma GCC unroll 2
  for (int k = 0; k < 8; k += 4) {
    r[k] = _mm256_shuffle_ps(t[k], t[k + 2], 0x44);
    r[k + 1] = _mm256_shuffle_ps(t[k], t[k + 2], 0xee);
    r[k + 2] = _mm256_shuffle_ps(t[k + 1], t[k + 3], 0x44);
    r[k + 3] = _mm256_shuffle_ps(t[k + 1], t[k + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    _mm256_storeu_ps(to + j * to_stride, _mm256_permute2f128_ps(r[j], r[4 + j], 0x20));
    _mm256_storeu_ps(to + (4 + j) * to_stride, _mm256_permute2f128_ps(r[j], r[4 + j], 0x31));
  }
}
#else
CAMSHAFT_INLINE void transpose_full(const float* from, int64_t from_stride, float* to,
                                    int64_t to_stride) {
  for (int c = 0; c < kLanes; ++c)
    for (int r = 0; r < kLanes; ++r) to[c * to_stride + r] = from[r * from_stride + c];
}
#endif

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

static inline void transpose_block(const uint8_t* from, int64_t from_stride, uint8_t* to,
                                   int64_t to_stride, int64_t rows, int64_t cols) {
  if (rows < 16 || cols < 16) return transpose_part(from, from_stride, to, to_stride, rows, cols);
  for (int64_t col = 0; col < cols; col += 16) {
    const int64_t c = col + 16 <= cols ? col : cols - 16;
    for (int64_t row = 0; row < rows; row += 16) {
      const int64_t r = row + 16 <= rows ? row : rows - 16;
      transpose_full(from + r * from_stride + c, from_stride, to + c * to_stride + r, to_stride);
    }
  }
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
