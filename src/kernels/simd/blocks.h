// SPDX-License-Identifier: Apache-2.0
// Blocks of 128 bits turned, with whatever any x86-64 has: packing needs no wider ones.
#pragma once

#include <cstddef>

#include "kernels/simd/simd.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace camshaft::kernels::CAMSHAFT_TARGET {

// to[c][r] = scale * from[r][c] for a block of 4x4.
CAMSHAFT_INLINE void transpose_4x4(const float* from, int64_t from_stride, float scale, float* to,
                                   int64_t to_stride) {
#if defined(__SSE2__)
  const __m128 factor = _mm_set1_ps(scale);
  __m128 r0 = _mm_mul_ps(_mm_loadu_ps(from), factor);
  __m128 r1 = _mm_mul_ps(_mm_loadu_ps(from + from_stride), factor);
  __m128 r2 = _mm_mul_ps(_mm_loadu_ps(from + 2 * from_stride), factor);
  __m128 r3 = _mm_mul_ps(_mm_loadu_ps(from + 3 * from_stride), factor);
  _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
  _mm_storeu_ps(to, r0);
  _mm_storeu_ps(to + to_stride, r1);
  _mm_storeu_ps(to + 2 * to_stride, r2);
  _mm_storeu_ps(to + 3 * to_stride, r3);
#else
  for (int64_t r = 0; r < 4; ++r)
    for (int64_t c = 0; c < 4; ++c) to[c * to_stride + r] = scale * from[r * from_stride + c];
#endif
}

// to[4 c + e] = from[e][first + c] ^ flip for 16 bytes c of four rows.
CAMSHAFT_INLINE void interleave_16(const std::byte* const (&from)[4], int64_t first, uint8_t flip,
                                   std::byte* to) {
#if defined(__SSE2__)
  const __m128i flips = _mm_set1_epi8(static_cast<char>(flip));
  const auto load16 = [&](int r) {
    return _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from[r] + first)), flips);
  };
  const __m128i r0 = load16(0), r1 = load16(1), r2 = load16(2), r3 = load16(3);
  const __m128i low01 = _mm_unpacklo_epi8(r0, r1), high01 = _mm_unpackhi_epi8(r0, r1);
  const __m128i low23 = _mm_unpacklo_epi8(r2, r3), high23 = _mm_unpackhi_epi8(r2, r3);
  __m128i* out = reinterpret_cast<__m128i*>(to);
  _mm_storeu_si128(out, _mm_unpacklo_epi16(low01, low23));
  _mm_storeu_si128(out + 1, _mm_unpackhi_epi16(low01, low23));
  _mm_storeu_si128(out + 2, _mm_unpacklo_epi16(high01, high23));
  _mm_storeu_si128(out + 3, _mm_unpackhi_epi16(high01, high23));
#else
  for (int c = 0; c < 16; ++c)
    for (int e = 0; e < 4; ++e) to[4 * c + e] = from[e][first + c] ^ static_cast<std::byte>(flip);
#endif
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
