// SPDX-License-Identifier: Apache-2.0
// AVX-512 (F, BW, DQ, VL): 16 floats, 32 registers, masks in k registers.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "base/cpu.h"

#define CAMSHAFT_INLINE static inline __attribute__((always_inline))
#define CAMSHAFT_INLINE_MEMBER inline __attribute__((always_inline))

// What not every set has; whether the machine has it too, uses() tells.
#define CAMSHAFT_HAS_FMA 1               // fused multiply-add
#define CAMSHAFT_HAS_VECTOR_ARGUMENTS 1  // calls pass eight vectors in registers
#define CAMSHAFT_HAS_VNNI 1              // products.h: VnniProduct, VnniPairProduct
#define CAMSHAFT_HAS_BF16 1              // products.h: Dpbf16Product
#define CAMSHAFT_HAS_AMX 1               // matrix registers
#define CAMSHAFT_HAS_BYTE_MASKS 1        // bytes and words are loaded and stored under masks
#define CAMSHAFT_HAS_BYTE_ROWS 1         // tables.h
#define CAMSHAFT_HAS_INTERLEAVED_ROWS 1  // rows.h

namespace camshaft::kernels::avx512 {

inline constexpr Isa kIsa = Isa::kAvx512;
inline constexpr int kLanes = 16;
inline constexpr int kRegisters = 32;

struct F32 {
  __m512 v;
};
struct I32 {
  __m512i v;
};
struct M32 {
  __mmask16 m;
};

CAMSHAFT_INLINE F32 zero() {
  return {_mm512_setzero_ps()};
}
CAMSHAFT_INLINE F32 set1(float x) {
  return {_mm512_set1_ps(x)};
}
CAMSHAFT_INLINE F32 load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
CAMSHAFT_INLINE void store(float* p, F32 a) {
  _mm512_storeu_ps(p, a.v);
}
CAMSHAFT_INLINE M32 first_n(int n) {
  return {static_cast<__mmask16>(n >= 16 ? 0xffffu : (1u << (n < 0 ? 0 : n)) - 1u)};
}
CAMSHAFT_INLINE F32 load(const float* p, M32 m) {
  return {_mm512_maskz_loadu_ps(m.m, p)};
}  // other lanes 0, not read
CAMSHAFT_INLINE void store(float* p, F32 a, M32 m) {
  _mm512_mask_storeu_ps(p, m.m, a.v);
}
CAMSHAFT_INLINE F32 load_at(const float* p, I32 index);

// Stops the compiler from loading the value again instead of keeping it.
CAMSHAFT_INLINE void keep_in_register(F32& a) {
  asm("" : "+v"(a.v));
}

CAMSHAFT_INLINE F32 operator+(F32 a, F32 b) {
  return {_mm512_add_ps(a.v, b.v)};
}
CAMSHAFT_INLINE F32 operator-(F32 a, F32 b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
CAMSHAFT_INLINE F32 operator*(F32 a, F32 b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
CAMSHAFT_INLINE F32 operator/(F32 a, F32 b) {
  return {_mm512_div_ps(a.v, b.v)};
}
CAMSHAFT_INLINE F32 fma(F32 a, F32 b, F32 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}  // a*b + c
CAMSHAFT_INLINE F32 fnma(F32 a, F32 b, F32 c) {
  return {_mm512_fnmadd_ps(a.v, b.v, c.v)};
}  // c - a*b
// min and max give b where a is NaN, as the instruction does.
CAMSHAFT_INLINE F32 min(F32 a, F32 b) {
  return {_mm512_min_ps(a.v, b.v)};
}
CAMSHAFT_INLINE F32 max(F32 a, F32 b) {
  return {_mm512_max_ps(a.v, b.v)};
}
CAMSHAFT_INLINE F32 sqrt(F32 a) {
  return {_mm512_sqrt_ps(a.v)};
}
CAMSHAFT_INLINE F32 abs(F32 a) {
  return {_mm512_abs_ps(a.v)};
}
CAMSHAFT_INLINE F32 neg(F32 a) {
  return {_mm512_xor_ps(a.v, _mm512_set1_ps(-0.0f))};
}
CAMSHAFT_INLINE F32 copysign(F32 magnitude, F32 sign) {
  const __m512 bit = _mm512_set1_ps(-0.0f);
  return {_mm512_or_ps(_mm512_andnot_ps(bit, magnitude.v), _mm512_and_ps(bit, sign.v))};
}
CAMSHAFT_INLINE F32 round_even(F32 a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
CAMSHAFT_INLINE F32 floor(F32 a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
}
CAMSHAFT_INLINE F32 ceil(F32 a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)};
}

// Comparisons are ordered: false where an operand is NaN, but not_equal.
CAMSHAFT_INLINE M32 less(F32 a, F32 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)};
}
CAMSHAFT_INLINE M32 less_equal(F32 a, F32 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)};
}
CAMSHAFT_INLINE M32 equal(F32 a, F32 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)};
}
CAMSHAFT_INLINE M32 not_equal(F32 a, F32 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_NEQ_UQ)};
}
CAMSHAFT_INLINE M32 is_nan(F32 a) {
  return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)};
}
CAMSHAFT_INLINE F32 select(M32 m, F32 a, F32 b) {
  return {_mm512_mask_blend_ps(m.m, b.v, a.v)};
}  // m ? a : b
CAMSHAFT_INLINE M32 mask_and(M32 a, M32 b) {
  return {static_cast<__mmask16>(a.m & b.m)};
}
CAMSHAFT_INLINE M32 mask_or(M32 a, M32 b) {
  return {static_cast<__mmask16>(a.m | b.m)};
}
CAMSHAFT_INLINE M32 mask_xor(M32 a, M32 b) {
  return {static_cast<__mmask16>(a.m ^ b.m)};
}
CAMSHAFT_INLINE M32 mask_not(M32 a) {
  return {static_cast<__mmask16>(~a.m)};
}

CAMSHAFT_INLINE bool any(M32 a) {
  return a.m != 0;
}
// a * 2^n for integral n in [-300, 300], rounded once also where the result is denormal.
CAMSHAFT_INLINE F32 scale_by_power(F32 a, F32 n) {
  return {_mm512_scalef_ps(a.v, n.v)};
}

CAMSHAFT_INLINE I32 iset1(int32_t x) {
  return {_mm512_set1_epi32(x)};
}
CAMSHAFT_INLINE I32 iload(const int32_t* p) {
  return {_mm512_loadu_si512(p)};
}
CAMSHAFT_INLINE void istore(int32_t* p, I32 a) {
  _mm512_storeu_si512(p, a.v);
}
CAMSHAFT_INLINE I32 iota() {
  return {_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)};
}
CAMSHAFT_INLINE I32 operator+(I32 a, I32 b) {
  return {_mm512_add_epi32(a.v, b.v)};
}
CAMSHAFT_INLINE I32 operator-(I32 a, I32 b) {
  return {_mm512_sub_epi32(a.v, b.v)};
}
CAMSHAFT_INLINE I32 operator*(I32 a, I32 b) {
  return {_mm512_mullo_epi32(a.v, b.v)};
}
template <int kBits>
CAMSHAFT_INLINE I32 shift_left(I32 a) {
  return {_mm512_slli_epi32(a.v, kBits)};
}
template <int kBits>
CAMSHAFT_INLINE I32 shift_right_arithmetic(I32 a) {
  return {_mm512_srai_epi32(a.v, kBits)};
}
CAMSHAFT_INLINE I32 to_int(F32 a) {
  return {_mm512_cvtps_epi32(a.v)};
}  // half to even
CAMSHAFT_INLINE F32 to_float(I32 a) {
  return {_mm512_cvtepi32_ps(a.v)};
}
CAMSHAFT_INLINE F32 bits_as_float(I32 a) {
  return {_mm512_castsi512_ps(a.v)};
}
CAMSHAFT_INLINE I32 bits_as_int(F32 a) {
  return {_mm512_castps_si512(a.v)};
}
CAMSHAFT_INLINE F32 load_at(const float* p, I32 index) {
  return {_mm512_i32gather_ps(index.v, p, 4)};
}

// Lane k: lane index[k] of a.
CAMSHAFT_INLINE F32 permute(F32 a, I32 index) {
  return {_mm512_permutexvar_ps(index.v, a.v)};
}

CAMSHAFT_INLINE float reduce_add(F32 a) {
  return _mm512_reduce_add_ps(a.v);
}
CAMSHAFT_INLINE float reduce_max(F32 a) {
  return _mm512_reduce_max_ps(a.v);
}
CAMSHAFT_INLINE float reduce_min(F32 a) {
  return _mm512_reduce_min_ps(a.v);
}

}  // namespace camshaft::kernels::avx512
