// SPDX-License-Identifier: Apache-2.0
// W16: a vector of kWords = 2 * kLanes int16. Arithmetic wraps.
#pragma once

#include <cstring>

#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

inline constexpr int kWords = 2 * kLanes;

#if defined(CAMSHAFT_TARGET_avx512)
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
#elif defined(CAMSHAFT_TARGET_avx2)
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
#else
typedef uint16_t WordLanes __attribute__((vector_size(16)));  // unsigned: it wraps
struct W16 {
  WordLanes v;
};
CAMSHAFT_INLINE W16 wset1(int16_t x) {
  const uint16_t w = static_cast<uint16_t>(x);
  return {WordLanes{w, w, w, w, w, w, w, w}};
}
CAMSHAFT_INLINE W16 wload(const int16_t* p) {
  W16 result;
  std::memcpy(&result.v, p, sizeof result.v);
  return result;
}
CAMSHAFT_INLINE void wstore(int16_t* p, W16 a) {
  std::memcpy(p, &a.v, sizeof a.v);
}
CAMSHAFT_INLINE W16 operator+(W16 a, W16 b) {
  return {a.v + b.v};
}
CAMSHAFT_INLINE W16 operator-(W16 a, W16 b) {
  return {a.v - b.v};
}
template <int kBits>
CAMSHAFT_INLINE W16 shift_left(W16 a) {
  return {a.v << kBits};
}
CAMSHAFT_INLINE W16 load_codes(const uint8_t* p) {
  W16 result;
  for (int k = 0; k < kWords; ++k) result.v[k] = p[k];
  return result;
}
#endif

// The first `count` ≤ kWords codes; other lanes are 0.
CAMSHAFT_INLINE W16 load_codes(const uint8_t* p, int64_t count) {
  uint8_t codes[kWords] = {};
  std::memcpy(codes, p, static_cast<size_t>(count));
  return load_codes(codes);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
