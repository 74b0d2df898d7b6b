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

}  // namespace camshaft::kernels::avx512
