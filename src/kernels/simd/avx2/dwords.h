// SPDX-License-Identifier: Apache-2.0
// Dwords as four bytes or packed codes of few bits.
#pragma once

#include "kernels/simd/simd.h"

namespace camshaft::kernels::avx2 {

using Dwords = __m256i;
CAMSHAFT_INLINE Dwords load_dwords(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
CAMSHAFT_INLINE Dwords broadcast(int32_t x) {
  return _mm256_set1_epi32(x);
}
CAMSHAFT_INLINE Dwords broadcast_words(int16_t x) {
  return _mm256_set1_epi16(x);
}
// Of two that are alike in all lanes: the one in even lanes, the other in odd ones.
CAMSHAFT_INLINE Dwords alternate(Dwords even, Dwords odd) {
  return _mm256_unpacklo_epi32(even, odd);
}
CAMSHAFT_INLINE Dwords keep_low_bits(Dwords dwords, int shift, int bits) {
  const Dwords moved = shift == 0 ? dwords : _mm256_srli_epi16(dwords, shift);
  return _mm256_and_si256(moved, _mm256_set1_epi8(static_cast<char>((1 << bits) - 1)));
}
CAMSHAFT_INLINE Dwords add_words(Dwords a, Dwords b) {
  return _mm256_add_epi16(a, b);
}
CAMSHAFT_INLINE Dwords subtract_bytes(Dwords a, Dwords b) {
  return _mm256_sub_epi8(a, b);
}
CAMSHAFT_INLINE Dwords flip_signs(Dwords bytes) {
  return _mm256_xor_si256(bytes, _mm256_set1_epi8(-128));
}
CAMSHAFT_INLINE Dwords add_dwords(Dwords a, Dwords b) {
  return _mm256_add_epi32(a, b);
}
CAMSHAFT_INLINE Dwords multiply_bytes(Dwords codes, Dwords row) {
  return _mm256_maddubs_epi16(codes, row);
}
CAMSHAFT_INLINE Dwords multiply_words(Dwords a, Dwords b) {
  return _mm256_madd_epi16(a, b);
}
// Of machines with AVX-VNNI.
CAMSHAFT_INLINE void add_vnni(Dwords codes, Dwords row, Dwords& sum) {
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(codes), "x"(row));
}

template <int kBits>
CAMSHAFT_INLINE F32 codes_as_floats(const std::byte* p, int shift) {
  const __m256i dwords =
      _mm256_srli_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), shift);
  return {_mm256_cvtepi32_ps(_mm256_and_si256(dwords, _mm256_set1_epi32((1 << kBits) - 1)))};
}

}  // namespace camshaft::kernels::avx2
