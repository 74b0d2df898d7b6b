// SPDX-License-Identifier: Apache-2.0
// Lanes in other places: transposes, repeats, sums of neighbours, pixels packed.
#pragma once

namespace camshaft::kernels::avx512 {

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

typedef long long TwoFloats __attribute__((aligned(4), may_alias));

// kFold floats, repeated over the vector.
template <int kFold>
CAMSHAFT_INLINE F32 load_repeated(const float* p) {
  if constexpr (kFold == kLanes) return load(p);
  if constexpr (kFold == 2)
    return {_mm512_castsi512_ps(_mm512_set1_epi64(*reinterpret_cast<const TwoFloats*>(p)))};
  if constexpr (kFold == 4) return {_mm512_broadcast_f32x4(_mm_loadu_ps(p))};
  return {_mm512_broadcast_f32x8(_mm256_loadu_ps(p))};
}

// a0+a1, a2+a3, …, then those of b.
CAMSHAFT_INLINE F32 pair_sums(F32 a, F32 b) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  return {
      _mm512_add_ps(_mm512_permutex2var_ps(a.v, even, b.v), _mm512_permutex2var_ps(a.v, odd, b.v))};
}

// to[k] = scale * reduce_add(a[k]), bit for bit, in 18 operations instead of 32 and 4 stores.
CAMSHAFT_INLINE void store_sums(const F32 (&a)[4], float scale, float* to) {
  // Halves, then quarters: every addition is of two lanes that reduce_add adds.
  const __m512 first = _mm512_add_ps(_mm512_shuffle_f32x4(a[0].v, a[1].v, 0x44),
                                     _mm512_shuffle_f32x4(a[0].v, a[1].v, 0xee));
  const __m512 second = _mm512_add_ps(_mm512_shuffle_f32x4(a[2].v, a[3].v, 0x44),
                                      _mm512_shuffle_f32x4(a[2].v, a[3].v, 0xee));
  const __m512 rows = _mm512_add_ps(_mm512_shuffle_f32x4(first, second, 0x88),
                                    _mm512_shuffle_f32x4(first, second, 0xdd));
  const __m512 pairs = _mm512_add_ps(rows, _mm512_permute_ps(rows, 0x4e));
  const __m512 sums = _mm512_add_ps(pairs, _mm512_permute_ps(pairs, 0xb1));
  const __m512i firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
  const __m128 four = _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, sums));
  _mm_storeu_ps(to, _mm_mul_ps(_mm_set1_ps(scale), four));
}

CAMSHAFT_INLINE I32 positive(I32 a) {
  return {_mm512_max_epi32(a.v, _mm512_setzero_si512())};
}
template <int kChannels>
CAMSHAFT_INLINE void store_pixels(uint8_t* to, I32 pixels) {
  if constexpr (kChannels == 2) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(pixels.v));
  } else if constexpr (kChannels == 3) {
    const __m512i in_lane = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 3, 3, 3, 3);
    const __m512i packed = _mm512_permutexvar_epi32(lanes, _mm512_shuffle_epi8(pixels.v, in_lane));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256(packed));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 32), _mm512_extracti32x4_epi32(packed, 2));
  } else {
    _mm512_storeu_si512(to, pixels.v);
  }
}

}  // namespace camshaft::kernels::avx512
