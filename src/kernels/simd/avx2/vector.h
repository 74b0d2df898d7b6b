// SPDX-License-Identifier: Apache-2.0
// AVX2 + FMA: 8 floats, 16 registers, masks as vectors.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "base/cpu.h"

#define CAMSHAFT_INLINE static inline __attribute__((always_inline))
#define CAMSHAFT_INLINE_MEMBER inline __attribute__((always_inline))

// What not every set has; whether the machine has it too, uses() tells.
#define CAMSHAFT_HAS_FMA 1               // fused multiply-add
#define CAMSHAFT_HAS_VECTOR_ARGUMENTS 1  // calls pass eight vectors in registers
#define CAMSHAFT_HAS_VNNI 1  // products.h: VnniProduct, VnniPairProduct; of machines with AVX-VNNI
#define CAMSHAFT_HAS_BYTE_PAIRS \
  1  // products.h: multiply_byte_pairs, which saturates; chains of steps, tiles of words
#define CAMSHAFT_HAS_CODE_PACKING 1      // bytes.h: CodePacking, four vectors at a time
#define CAMSHAFT_HAS_BYTE_ROWS 1         // tables.h
#define CAMSHAFT_HAS_INTERLEAVED_ROWS 1  // rows.h

namespace camshaft::kernels::avx2 {

inline constexpr Isa kIsa = Isa::kAvx2;
inline constexpr int kLanes = 8;
inline constexpr int kRegisters = 16;

struct F32 {
  __m256 v;
};
struct I32 {
  __m256i v;
};
struct M32 {
  __m256 m;
};

CAMSHAFT_INLINE F32 zero() {
  return {_mm256_setzero_ps()};
}
CAMSHAFT_INLINE F32 set1(float x) {
  return {_mm256_set1_ps(x)};
}
CAMSHAFT_INLINE F32 load(const float* p) {
  return {_mm256_loadu_ps(p)};
}
CAMSHAFT_INLINE void store(float* p, F32 a) {
  _mm256_storeu_ps(p, a.v);
}
CAMSHAFT_INLINE M32 first_n(int n) {
  return {_mm256_castsi256_ps(
      _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)))};
}
CAMSHAFT_INLINE F32 load(const float* p, M32 m) {
  return {_mm256_maskload_ps(p, _mm256_castps_si256(m.m))};
}
CAMSHAFT_INLINE void store(float* p, F32 a, M32 m) {
  _mm256_maskstore_ps(p, _mm256_castps_si256(m.m), a.v);
}

// Stops the compiler from loading the value again instead of keeping it.
CAMSHAFT_INLINE void keep_in_register(F32& a) {
  asm("" : "+x"(a.v));
}

CAMSHAFT_INLINE F32 operator+(F32 a, F32 b) {
  return {_mm256_add_ps(a.v, b.v)};
}
CAMSHAFT_INLINE F32 operator-(F32 a, F32 b) {
  return {_mm256_sub_ps(a.v, b.v)};
}
CAMSHAFT_INLINE F32 operator*(F32 a, F32 b) {
  return {_mm256_mul_ps(a.v, b.v)};
}
CAMSHAFT_INLINE F32 operator/(F32 a, F32 b) {
  return {_mm256_div_ps(a.v, b.v)};
}
CAMSHAFT_INLINE F32 fma(F32 a, F32 b, F32 c) {
  return {_mm256_fmadd_ps(a.v, b.v, c.v)};
}
CAMSHAFT_INLINE F32 fnma(F32 a, F32 b, F32 c) {
  return {_mm256_fnmadd_ps(a.v, b.v, c.v)};
}
CAMSHAFT_INLINE F32 min(F32 a, F32 b) {
  return {_mm256_min_ps(a.v, b.v)};
}
CAMSHAFT_INLINE F32 max(F32 a, F32 b) {
  return {_mm256_max_ps(a.v, b.v)};
}
CAMSHAFT_INLINE F32 sqrt(F32 a) {
  return {_mm256_sqrt_ps(a.v)};
}
CAMSHAFT_INLINE F32 abs(F32 a) {
  return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)};
}
CAMSHAFT_INLINE F32 neg(F32 a) {
  return {_mm256_xor_ps(a.v, _mm256_set1_ps(-0.0f))};
}
CAMSHAFT_INLINE F32 copysign(F32 magnitude, F32 sign) {
  const __m256 bit = _mm256_set1_ps(-0.0f);
  return {_mm256_or_ps(_mm256_andnot_ps(bit, magnitude.v), _mm256_and_ps(bit, sign.v))};
}
CAMSHAFT_INLINE F32 round_even(F32 a) {
  return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
CAMSHAFT_INLINE F32 floor(F32 a) {
  return {_mm256_floor_ps(a.v)};
}
CAMSHAFT_INLINE F32 ceil(F32 a) {
  return {_mm256_ceil_ps(a.v)};
}

CAMSHAFT_INLINE M32 less(F32 a, F32 b) {
  return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)};
}
CAMSHAFT_INLINE M32 less_equal(F32 a, F32 b) {
  return {_mm256_cmp_ps(a.v, b.v, _CMP_LE_OQ)};
}
CAMSHAFT_INLINE M32 equal(F32 a, F32 b) {
  return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)};
}
CAMSHAFT_INLINE M32 not_equal(F32 a, F32 b) {
  return {_mm256_cmp_ps(a.v, b.v, _CMP_NEQ_UQ)};
}
CAMSHAFT_INLINE M32 is_nan(F32 a) {
  return {_mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q)};
}
CAMSHAFT_INLINE F32 select(M32 m, F32 a, F32 b) {
  return {_mm256_blendv_ps(b.v, a.v, m.m)};
}
CAMSHAFT_INLINE M32 mask_and(M32 a, M32 b) {
  return {_mm256_and_ps(a.m, b.m)};
}
CAMSHAFT_INLINE M32 mask_or(M32 a, M32 b) {
  return {_mm256_or_ps(a.m, b.m)};
}
CAMSHAFT_INLINE M32 mask_xor(M32 a, M32 b) {
  return {_mm256_xor_ps(a.m, b.m)};
}
CAMSHAFT_INLINE M32 mask_not(M32 a) {
  return {_mm256_xor_ps(a.m, _mm256_castsi256_ps(_mm256_set1_epi32(-1)))};
}

CAMSHAFT_INLINE bool any(M32 a) {
  return _mm256_movemask_ps(a.m) != 0;
}

CAMSHAFT_INLINE I32 iset1(int32_t x) {
  return {_mm256_set1_epi32(x)};
}
CAMSHAFT_INLINE I32 iload(const int32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
CAMSHAFT_INLINE void istore(int32_t* p, I32 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v);
}
CAMSHAFT_INLINE I32 iota() {
  return {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)};
}
CAMSHAFT_INLINE I32 operator+(I32 a, I32 b) {
  return {_mm256_add_epi32(a.v, b.v)};
}
CAMSHAFT_INLINE I32 operator-(I32 a, I32 b) {
  return {_mm256_sub_epi32(a.v, b.v)};
}
CAMSHAFT_INLINE I32 operator*(I32 a, I32 b) {
  return {_mm256_mullo_epi32(a.v, b.v)};
}
template <int kBits>
CAMSHAFT_INLINE I32 shift_left(I32 a) {
  return {_mm256_slli_epi32(a.v, kBits)};
}
template <int kBits>
CAMSHAFT_INLINE I32 shift_right_arithmetic(I32 a) {
  return {_mm256_srai_epi32(a.v, kBits)};
}
CAMSHAFT_INLINE I32 to_int(F32 a) {
  return {_mm256_cvtps_epi32(a.v)};
}
CAMSHAFT_INLINE F32 to_float(I32 a) {
  return {_mm256_cvtepi32_ps(a.v)};
}
CAMSHAFT_INLINE F32 bits_as_float(I32 a) {
  return {_mm256_castsi256_ps(a.v)};
}
CAMSHAFT_INLINE I32 bits_as_int(F32 a) {
  return {_mm256_castps_si256(a.v)};
}
CAMSHAFT_INLINE F32 load_at(const float* p, I32 index) {
  return {_mm256_i32gather_ps(p, index.v, 4)};
}

// a * 2^n for integral n in [-252, 252], in two halves so that neither power leaves the normal
// range.
CAMSHAFT_INLINE F32 scale_by_power(F32 a, F32 n) {
  const I32 whole = to_int(n), half = shift_right_arithmetic<1>(whole), bias = iset1(127);
  return a * bits_as_float(shift_left<23>(half + bias)) *
         bits_as_float(shift_left<23>(whole - half + bias));
}

CAMSHAFT_INLINE F32 permute(F32 a, I32 index) {
  return {_mm256_permutevar8x32_ps(a.v, index.v)};
}

CAMSHAFT_INLINE float reduce_add(F32 a) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
CAMSHAFT_INLINE float reduce_max(F32 a) {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
CAMSHAFT_INLINE float reduce_min(F32 a) {
  __m128 s = _mm_min_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  s = _mm_min_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_min_ss(s, _mm_movehdup_ps(s)));
}

}  // namespace camshaft::kernels::avx2
