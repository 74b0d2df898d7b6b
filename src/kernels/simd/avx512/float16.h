// SPDX-License-Identifier: Apache-2.0
// Vectors of bfloat16 and IEEE half values to floats and back.
#pragma once

namespace camshaft::kernels::avx512 {

// Bits of v as a bfloat16 in the low half of each lane.
CAMSHAFT_INLINE I32 bf16_bits(F32 v) {
  const __m512i bits = _mm512_castps_si512(v.v), high = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_srli_epi32(
      _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7fff)), 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(v.v, v.v, _CMP_UNORD_Q);
  return {_mm512_mask_or_epi32(rounded, nan, high, _mm512_set1_epi32(0x40))};
}

CAMSHAFT_INLINE F32 load_floats(const Bf16* p) {
  const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16))};
}

CAMSHAFT_INLINE void store_floats(Bf16* p, F32 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(bf16_bits(v).v));
}

CAMSHAFT_INLINE F32 load_floats(const Half* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}

CAMSHAFT_INLINE void store_floats(Half* p, F32 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(v.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

// The first `count` < kLanes values; other lanes are 0.
template <class T>
CAMSHAFT_INLINE F32 load_floats(const T* p, int64_t count) {
  T lanes[kLanes];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes),
                      _mm256_maskz_loadu_epi16(first_n(static_cast<int>(count)).m, p));
  return load_floats(lanes);
}
template <class T>
CAMSHAFT_INLINE void store_floats(T* p, F32 v, int64_t count) {
  T lanes[kLanes];
  store_floats(lanes, v);
  _mm256_mask_storeu_epi16(p, first_n(static_cast<int>(count)).m,
                           _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lanes)));
}

}  // namespace camshaft::kernels::avx512
