// SPDX-License-Identifier: Apache-2.0
// Vectors of bfloat16 and IEEE half values to floats and back.
#pragma once

namespace camshaft::kernels::avx2 {

// Bits of v as a bfloat16 in the low half of each lane.
CAMSHAFT_INLINE I32 bf16_bits(F32 v) {
  const __m256i bits = _mm256_castps_si256(v.v), high = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_srli_epi32(
      _mm256_add_epi32(_mm256_add_epi32(bits, odd), _mm256_set1_epi32(0x7fff)), 16);
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v.v, v.v, _CMP_UNORD_Q));
  return {_mm256_blendv_epi8(rounded, _mm256_or_si256(high, _mm256_set1_epi32(0x40)), nan)};
}

CAMSHAFT_INLINE F32 load_floats(const Bf16* p) {
  const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16))};
}

CAMSHAFT_INLINE void store_floats(Bf16* p, F32 v) {
  const __m256i bits = bf16_bits(v).v;
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(p),
      _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1)));
}

CAMSHAFT_INLINE F32 load_floats(const Half* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}

CAMSHAFT_INLINE void store_floats(Half* p, F32 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_cvtps_ph(v.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

}  // namespace camshaft::kernels::avx2
