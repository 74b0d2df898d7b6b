// SPDX-License-Identifier: Apache-2.0
// Vectors of int16.
#pragma once

#include <cstddef>

namespace camshaft::kernels::avx2 {

inline constexpr int kWords = 2 * kLanes;

struct W16 {
  __m256i v;
};
CAMSHAFT_INLINE W16 wset1(int16_t x) {
  return {_mm256_set1_epi16(x)};
}
CAMSHAFT_INLINE W16 wload(const int16_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
CAMSHAFT_INLINE void wstore(int16_t* p, W16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v);
}
CAMSHAFT_INLINE W16 operator+(W16 a, W16 b) {
  return {_mm256_add_epi16(a.v, b.v)};
}
CAMSHAFT_INLINE W16 operator-(W16 a, W16 b) {
  return {_mm256_sub_epi16(a.v, b.v)};
}
template <int kBits>
CAMSHAFT_INLINE W16 shift_left(W16 a) {
  return {_mm256_slli_epi16(a.v, kBits)};
}
CAMSHAFT_INLINE W16 load_codes(const uint8_t* p) {
  return {_mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}

// A pair of words in every lane, and the sums of products of neighbouring words.
CAMSHAFT_INLINE W16 broadcast_pair(const int16_t* p) {
  int32_t pair;
  __builtin_memcpy(&pair, p, sizeof pair);
  return {_mm256_set1_epi32(pair)};
}
CAMSHAFT_INLINE I32 pair_sums(W16 a, W16 b) {
  return {_mm256_madd_epi16(a.v, b.v)};
}

// kLanes words to a vector of int32 and back, saturated.
CAMSHAFT_INLINE I32 load_words(const int16_t* p) {
  return {_mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
CAMSHAFT_INLINE I32 load_words(const uint16_t* p) {
  return {_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
CAMSHAFT_INLINE void store_words(int16_t* p, I32 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packs_epi32(_mm256_castsi256_si128(a.v), _mm256_extracti128_si256(a.v, 1)));
}
CAMSHAFT_INLINE void store_words(uint16_t* p, I32 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packus_epi32(_mm256_castsi256_si128(a.v), _mm256_extracti128_si256(a.v, 1)));
}

// Neighbouring bytes become neighbouring words.
CAMSHAFT_INLINE void widen_bytes(const std::byte* from, int64_t count, std::byte* to) {
  int64_t k = 0;
  for (; k + 16 <= count; k += 16)
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(to + 2 * k),
        _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + k))));
  if (k + 8 <= count) {
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(to + 2 * k),
        _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + k))));
    k += 8;
  }
  for (; k < count; ++k) {
    const uint16_t word = std::to_integer<uint16_t>(from[k]);
    __builtin_memcpy(to + 2 * k, &word, sizeof word);
  }
}

}  // namespace camshaft::kernels::avx2
