// SPDX-License-Identifier: Apache-2.0
// Dwords as four bytes or packed codes of few bits.
#pragma once

#include "kernels/simd/simd.h"

namespace camshaft::kernels::avx512 {

using Dwords = __m512i;
CAMSHAFT_INLINE Dwords load_dwords(const std::byte* p) {
  return _mm512_loadu_si512(p);
}
CAMSHAFT_INLINE Dwords broadcast(int32_t x) {
  return _mm512_set1_epi32(x);
}
CAMSHAFT_INLINE Dwords broadcast_words(int16_t x) {
  return _mm512_set1_epi16(x);
}
// Of two that are alike in all lanes: the one in even lanes, the other in odd ones.
CAMSHAFT_INLINE Dwords alternate(Dwords even, Dwords odd) {
  return _mm512_unpacklo_epi32(even, odd);
}
CAMSHAFT_INLINE Dwords keep_low_bits(Dwords dwords, int shift, int bits) {
  const Dwords moved =
      shift == 0 ? dwords : _mm512_srli_epi16(dwords, static_cast<unsigned>(shift));
  return _mm512_and_si512(moved, _mm512_set1_epi8(static_cast<char>((1 << bits) - 1)));
}
CAMSHAFT_INLINE Dwords add_words(Dwords a, Dwords b) {
  return _mm512_add_epi16(a, b);
}
CAMSHAFT_INLINE Dwords subtract_bytes(Dwords a, Dwords b) {
  return _mm512_sub_epi8(a, b);
}
CAMSHAFT_INLINE Dwords flip_signs(Dwords bytes) {
  return _mm512_xor_si512(bytes, _mm512_set1_epi8(-128));
}
CAMSHAFT_INLINE Dwords add_dwords(Dwords a, Dwords b) {
  return _mm512_add_epi32(a, b);
}
CAMSHAFT_INLINE Dwords multiply_bytes(Dwords codes, Dwords row) {
  return _mm512_maddubs_epi16(codes, row);
}
CAMSHAFT_INLINE Dwords multiply_words(Dwords a, Dwords b) {
  return _mm512_madd_epi16(a, b);
}
CAMSHAFT_INLINE void add_vnni(Dwords codes, Dwords row, Dwords& sum) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(codes), "v"(row));
}

template <int kBits>
CAMSHAFT_INLINE F32 codes_as_floats(const std::byte* p, int shift) {
  const __m512i dwords = _mm512_srli_epi32(_mm512_loadu_si512(p), static_cast<unsigned>(shift));
  return {_mm512_cvtepi32_ps(_mm512_and_si512(dwords, _mm512_set1_epi32((1 << kBits) - 1)))};
}

}  // namespace camshaft::kernels::avx512
