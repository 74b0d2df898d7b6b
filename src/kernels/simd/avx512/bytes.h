// SPDX-License-Identifier: Apache-2.0
// kLanes bytes to a vector of int32 and back.
#pragma once

namespace camshaft::kernels::avx512 {

CAMSHAFT_INLINE I32 load_bytes(const int8_t* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
CAMSHAFT_INLINE I32 load_bytes(const uint8_t* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
CAMSHAFT_INLINE void store_bytes(int8_t* p, I32 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(a.v));
}
CAMSHAFT_INLINE void store_bytes(uint8_t* p, I32 a) {
  const __m512i positive = _mm512_max_epi32(
      a.v, _mm512_setzero_si512());  // the conversion takes its operand as unsigned
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtusepi32_epi8(positive));
}
// The packs interleave 128-bit lanes: dword k of the result belongs to vector k % 4.
template <class T>
CAMSHAFT_INLINE void store_bytes(T* p, I32 a, I32 b, I32 c, I32 d) {
  const __m512i ab = _mm512_packs_epi32(a.v, b.v), cd = _mm512_packs_epi32(c.v, d.v);
  const __m512i mixed = T(-1) < T(0) ? _mm512_packs_epi16(ab, cd) : _mm512_packus_epi16(ab, cd);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  _mm512_storeu_si512(p, _mm512_permutexvar_epi32(order, mixed));
}
CAMSHAFT_INLINE void store_bytes(uint8_t* p, I32 a, I32 b) {
  const __m512i words = _mm512_packs_epi32(a.v, b.v), mixed = _mm512_packus_epi16(words, words);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 4, 8, 12, 1, 5, 9, 13);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_castsi512_si256(_mm512_permutexvar_epi32(order, mixed)));
}
CAMSHAFT_INLINE I32 load_bytes(const uint8_t* p, int count) {
  return {_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(first_n(count).m, p))};
}
CAMSHAFT_INLINE void store_codes(uint8_t* p, I32 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}
CAMSHAFT_INLINE void store_codes(uint8_t* p, I32 a, int count) {
  _mm_mask_storeu_epi8(p, first_n(count).m, _mm512_cvtepi32_epi8(a.v));
}

// The first `count` ≤ kLanes floats. Stores under a mask take many cycles on AVX2.
CAMSHAFT_INLINE void store_first(float* p, F32 v, int count) {
  store(p, v, first_n(count));
}

}  // namespace camshaft::kernels::avx512
