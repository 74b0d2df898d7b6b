// SPDX-License-Identifier: Apache-2.0
// Vectors of bfloat16 and IEEE half values to floats and back, rounded half to even. NaN stays NaN.
#pragma once

#include <cstring>

#include "ir/types.h"
#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

struct Bf16 {
  uint16_t bits;
};
struct Half {
  uint16_t bits;
};

// Bits of v as a bfloat16 in the low half of each lane.
CAMSHAFT_INLINE I32 bf16_bits(F32 v) {
#if defined(CAMSHAFT_TARGET_avx512)
  const __m512i bits = _mm512_castps_si512(v.v), high = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_srli_epi32(
      _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7fff)), 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(v.v, v.v, _CMP_UNORD_Q);
  return {_mm512_mask_or_epi32(rounded, nan, high, _mm512_set1_epi32(0x40))};
#elif defined(CAMSHAFT_TARGET_avx2)
  const __m256i bits = _mm256_castps_si256(v.v), high = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_srli_epi32(
      _mm256_add_epi32(_mm256_add_epi32(bits, odd), _mm256_set1_epi32(0x7fff)), 16);
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v.v, v.v, _CMP_UNORD_Q));
  return {_mm256_blendv_epi8(rounded, _mm256_or_si256(high, _mm256_set1_epi32(0x40)), nan)};
#else
  float lanes[kLanes];
  int32_t out[kLanes];
  store(lanes, v);
  for (int k = 0; k < kLanes; ++k) {
    uint32_t bits;
    std::memcpy(&bits, &lanes[k], sizeof bits);
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    out[k] =
        static_cast<int32_t>(nan ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  return iload(out);
#endif
}

CAMSHAFT_INLINE F32 load_floats(const Bf16* p) {
#if defined(CAMSHAFT_TARGET_avx512)
  const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16))};
#elif defined(CAMSHAFT_TARGET_avx2)
  const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16))};
#else
  int32_t lanes[kLanes];
  for (int k = 0; k < kLanes; ++k)
    lanes[k] = static_cast<int32_t>(static_cast<uint32_t>(p[k].bits) << 16);
  return bits_as_float(iload(lanes));
#endif
}

CAMSHAFT_INLINE void store_floats(Bf16* p, F32 v) {
#if defined(CAMSHAFT_TARGET_avx512)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(bf16_bits(v).v));
#elif defined(CAMSHAFT_TARGET_avx2)
  const __m256i bits = bf16_bits(v).v;
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(p),
      _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1)));
#else
  int32_t lanes[kLanes];
  istore(lanes, bf16_bits(v));
  for (int k = 0; k < kLanes; ++k) p[k].bits = static_cast<uint16_t>(lanes[k]);
#endif
}

#if defined(CAMSHAFT_TARGET_scalar)
CAMSHAFT_INLINE float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, rest = bits & 0x7fff;
  uint32_t out = sign;
  if (rest >= 0x7c00) {
    out |= 0x7f800000u | (rest & 0x3ff) << 13 | (rest > 0x7c00 ? 0x400000u : 0);
  } else if (rest >= 0x400) {
    out |= (rest + 0x1c000) << 13;
  } else {  // zero and denormals: exact in float
    const float value = static_cast<float>(rest) * 0x1p-24f;
    uint32_t magnitude;
    std::memcpy(&magnitude, &value, sizeof magnitude);
    out |= magnitude;
  }
  float value;
  std::memcpy(&value, &out, sizeof value);
  return value;
}

CAMSHAFT_INLINE uint16_t float_to_half(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00 | (bits >> 13 & 0x3ff));
  if (bits >= 0x477ff000u) return sign | 0x7c00;  // rounds to infinity
  if (bits < 0x38800000u) {                       // a denormal half: adding 0.5 rounds at its place
    float magnitude;
    std::memcpy(&magnitude, &bits, sizeof magnitude);
    magnitude += 0.5f;
    std::memcpy(&bits, &magnitude, sizeof bits);
    return static_cast<uint16_t>(sign | (bits - 0x3f000000u));
  }
  bits += 0xfff + (bits >> 13 & 1);
  return static_cast<uint16_t>(sign | (bits - 0x38000000u) >> 13);
}
#endif

CAMSHAFT_INLINE F32 load_floats(const Half* p) {
#if defined(CAMSHAFT_TARGET_avx512)
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
#elif defined(CAMSHAFT_TARGET_avx2)
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
#else
  float lanes[kLanes];
  for (int k = 0; k < kLanes; ++k) lanes[k] = half_to_float(p[k].bits);
  return load(lanes);
#endif
}

CAMSHAFT_INLINE void store_floats(Half* p, F32 v) {
#if defined(CAMSHAFT_TARGET_avx512)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(v.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(CAMSHAFT_TARGET_avx2)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_cvtps_ph(v.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#else
  float lanes[kLanes];
  store(lanes, v);
  for (int k = 0; k < kLanes; ++k) p[k].bits = float_to_half(lanes[k]);
#endif
}

// The first `count` < kLanes values; other lanes are 0.
template <class T>
CAMSHAFT_INLINE F32 load_floats(const T* p, int64_t count) {
#if defined(CAMSHAFT_TARGET_avx512)
  T lanes[kLanes];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes),
                      _mm256_maskz_loadu_epi16(first_n(static_cast<int>(count)).m, p));
#else
  T lanes[kLanes] = {};
  std::memcpy(lanes, p, static_cast<size_t>(count) * sizeof(T));
#endif
  return load_floats(lanes);
}
template <class T>
CAMSHAFT_INLINE void store_floats(T* p, F32 v, int64_t count) {
  T lanes[kLanes];
  store_floats(lanes, v);
#if defined(CAMSHAFT_TARGET_avx512)
  _mm256_mask_storeu_epi16(p, first_n(static_cast<int>(count)).m,
                           _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lanes)));
#else
  std::memcpy(p, lanes, static_cast<size_t>(count) * sizeof(T));
#endif
}
// Rows of float serve the same templates.
CAMSHAFT_INLINE F32 load_floats(const float* p) {
  return load(p);
}
CAMSHAFT_INLINE void store_floats(float* p, F32 v) {
  store(p, v);
}
CAMSHAFT_INLINE F32 load_floats(const float* p, int64_t count) {
  return load(p, first_n(static_cast<int>(count)));
}
CAMSHAFT_INLINE void store_floats(float* p, F32 v, int64_t count) {
  store(p, v, first_n(static_cast<int>(count)));
}

// Rows from one of the three types to another.
template <class From, class To>
static inline void convert_row(const From* from, To* to, int64_t count) {
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) store_floats(to + k, load_floats(from + k));
  if (k < count) store_floats(to + k, load_floats(from + k, count - k), count - k);
}

// Calls body(T()) with T = float, Bf16 or Half.
template <class Body>
CAMSHAFT_INLINE void with_float_type(ir::DataType type, const Body& body) {
  if (type == ir::DataType::kBFloat16)
    body(Bf16{});
  else if (type == ir::DataType::kHalf)
    body(Half{});
  else
    body(0.0f);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
