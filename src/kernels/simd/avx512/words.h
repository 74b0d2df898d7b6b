// SPDX-License-Identifier: Apache-2.0
// Vectors of int16.
#pragma once

#include <cstddef>

namespace camshaft::kernels::avx512 {

inline constexpr int kWords = 2 * kLanes;

struct W16 {
  __m512i v;
};
CAMSHAFT_INLINE W16 wset1(int16_t x) {
  return {_mm512_set1_epi16(x)};
}
CAMSHAFT_INLINE W16 wload(const int16_t* p) {
  return {_mm512_loadu_si512(p)};
}
CAMSHAFT_INLINE void wstore(int16_t* p, W16 a) {
  _mm512_storeu_si512(p, a.v);
}
CAMSHAFT_INLINE W16 operator+(W16 a, W16 b) {
  return {_mm512_add_epi16(a.v, b.v)};
}
CAMSHAFT_INLINE W16 operator-(W16 a, W16 b) {
  return {_mm512_sub_epi16(a.v, b.v)};
}
template <int kBits>
CAMSHAFT_INLINE W16 shift_left(W16 a) {
  return {_mm512_slli_epi16(a.v, kBits)};
}
CAMSHAFT_INLINE W16 load_codes(const uint8_t* p) {
  return {_mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}

// A pair of words in every lane, and the sums of products of neighbouring words.
CAMSHAFT_INLINE W16 broadcast_pair(const int16_t* p) {
  int32_t pair;
  __builtin_memcpy(&pair, p, sizeof pair);
  return {_mm512_set1_epi32(pair)};
}
CAMSHAFT_INLINE I32 pair_sums(W16 a, W16 b) {
  return {_mm512_madd_epi16(a.v, b.v)};
}

// kLanes words to a vector of int32 and back, saturated.
CAMSHAFT_INLINE I32 load_words(const int16_t* p) {
  return {_mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
CAMSHAFT_INLINE I32 load_words(const uint16_t* p) {
  return {_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
CAMSHAFT_INLINE void store_words(int16_t* p, I32 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtsepi32_epi16(a.v));
}
CAMSHAFT_INLINE void store_words(uint16_t* p, I32 a) {
  const __m512i positive = _mm512_max_epi32(
      a.v, _mm512_setzero_si512());  // the conversion takes its operand as unsigned
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtusepi32_epi16(positive));
}

}  // namespace camshaft::kernels::avx512
