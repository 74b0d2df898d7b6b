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

// rows x cols of any size; every tile of kLanes x kLanes goes through registers.
static inline void transpose_block(const float* from, int64_t from_stride, float* to,
                                   int64_t to_stride, int64_t rows, int64_t cols) {
  const int64_t whole_rows = rows - rows % kLanes, whole_cols = cols - cols % kLanes;
  for (int64_t c = 0; c < whole_cols; c += kLanes) {
    for (int64_t r = 0; r < whole_rows; r += kLanes)
      transpose_full(from + r * from_stride + c, from_stride, to + c * to_stride + r, to_stride);
    transpose_part(from + whole_rows * from_stride + c, from_stride,
                   to + c * to_stride + whole_rows, to_stride, rows - whole_rows,
                   static_cast<int64_t>(kLanes));
  }
  transpose_part(from + whole_cols, from_stride, to + whole_cols * to_stride, to_stride, rows,
                 cols - whole_cols);
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
