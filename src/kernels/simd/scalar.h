// SPDX-License-Identifier: Apache-2.0
// Plain C++: 4 floats in an array, which any compiler turns into what the machine has. The oracle of the vector layer and the
// target for processors without AVX2.
#pragma once

#include <cstdint>
#include <cstring>

#define CAMSHAFT_INLINE static inline __attribute__((always_inline))

namespace camshaft::kernels::scalar {

inline constexpr int kLanes = 4;
inline constexpr int kRegisters = 16;

struct F32 { float v[kLanes]; };
struct I32 { int32_t v[kLanes]; };
struct M32 { bool m[kLanes]; };

#define CAMSHAFT_EACH(Type, expression)                            \
  Type result;                                                     \
  for (int k = 0; k < kLanes; ++k) result.CAMSHAFT_MEMBER(Type)[k] = (expression); \
  return result
#define CAMSHAFT_MEMBER(Type) CAMSHAFT_MEMBER_##Type
#define CAMSHAFT_MEMBER_F32 v
#define CAMSHAFT_MEMBER_I32 v
#define CAMSHAFT_MEMBER_M32 m

CAMSHAFT_INLINE F32 set1(float x) { CAMSHAFT_EACH(F32, x); }
CAMSHAFT_INLINE F32 zero() { return set1(0); }
CAMSHAFT_INLINE F32 load(const float* p) { CAMSHAFT_EACH(F32, p[k]); }
CAMSHAFT_INLINE void store(float* p, F32 a) { std::memcpy(p, a.v, sizeof a.v); }
CAMSHAFT_INLINE M32 first_n(int n) { CAMSHAFT_EACH(M32, k < n); }
CAMSHAFT_INLINE F32 load(const float* p, M32 m) { CAMSHAFT_EACH(F32, m.m[k] ? p[k] : 0); }
CAMSHAFT_INLINE void store(float* p, F32 a, M32 m) {
  for (int k = 0; k < kLanes; ++k)
    if (m.m[k]) p[k] = a.v[k];
}

CAMSHAFT_INLINE F32 operator+(F32 a, F32 b) { CAMSHAFT_EACH(F32, a.v[k] + b.v[k]); }
CAMSHAFT_INLINE F32 operator-(F32 a, F32 b) { CAMSHAFT_EACH(F32, a.v[k] - b.v[k]); }
CAMSHAFT_INLINE F32 operator*(F32 a, F32 b) { CAMSHAFT_EACH(F32, a.v[k] * b.v[k]); }
CAMSHAFT_INLINE F32 operator/(F32 a, F32 b) { CAMSHAFT_EACH(F32, a.v[k] / b.v[k]); }
CAMSHAFT_INLINE F32 fma(F32 a, F32 b, F32 c) { CAMSHAFT_EACH(F32, a.v[k] * b.v[k] + c.v[k]); }
CAMSHAFT_INLINE F32 fnma(F32 a, F32 b, F32 c) { CAMSHAFT_EACH(F32, c.v[k] - a.v[k] * b.v[k]); }
CAMSHAFT_INLINE F32 min(F32 a, F32 b) { CAMSHAFT_EACH(F32, a.v[k] < b.v[k] ? a.v[k] : b.v[k]); }
CAMSHAFT_INLINE F32 max(F32 a, F32 b) { CAMSHAFT_EACH(F32, a.v[k] > b.v[k] ? a.v[k] : b.v[k]); }
CAMSHAFT_INLINE F32 sqrt(F32 a) { CAMSHAFT_EACH(F32, __builtin_sqrtf(a.v[k])); }
CAMSHAFT_INLINE F32 abs(F32 a) { CAMSHAFT_EACH(F32, __builtin_fabsf(a.v[k])); }
CAMSHAFT_INLINE F32 neg(F32 a) { CAMSHAFT_EACH(F32, -a.v[k]); }
CAMSHAFT_INLINE F32 round_even(F32 a) { CAMSHAFT_EACH(F32, __builtin_rintf(a.v[k])); }
CAMSHAFT_INLINE F32 floor(F32 a) { CAMSHAFT_EACH(F32, __builtin_floorf(a.v[k])); }
CAMSHAFT_INLINE F32 ceil(F32 a) { CAMSHAFT_EACH(F32, __builtin_ceilf(a.v[k])); }
CAMSHAFT_INLINE F32 copysign(F32 a, F32 s) { CAMSHAFT_EACH(F32, __builtin_copysignf(a.v[k], s.v[k])); }

CAMSHAFT_INLINE M32 less(F32 a, F32 b) { CAMSHAFT_EACH(M32, a.v[k] < b.v[k]); }
CAMSHAFT_INLINE M32 less_equal(F32 a, F32 b) { CAMSHAFT_EACH(M32, a.v[k] <= b.v[k]); }
CAMSHAFT_INLINE M32 equal(F32 a, F32 b) { CAMSHAFT_EACH(M32, a.v[k] == b.v[k]); }
CAMSHAFT_INLINE M32 not_equal(F32 a, F32 b) { CAMSHAFT_EACH(M32, a.v[k] != b.v[k]); }
CAMSHAFT_INLINE M32 is_nan(F32 a) { CAMSHAFT_EACH(M32, a.v[k] != a.v[k]); }
CAMSHAFT_INLINE F32 select(M32 m, F32 a, F32 b) { CAMSHAFT_EACH(F32, m.m[k] ? a.v[k] : b.v[k]); }
CAMSHAFT_INLINE M32 mask_and(M32 a, M32 b) { CAMSHAFT_EACH(M32, a.m[k] && b.m[k]); }
CAMSHAFT_INLINE M32 mask_or(M32 a, M32 b) { CAMSHAFT_EACH(M32, a.m[k] || b.m[k]); }
CAMSHAFT_INLINE M32 mask_xor(M32 a, M32 b) { CAMSHAFT_EACH(M32, a.m[k] != b.m[k]); }
CAMSHAFT_INLINE M32 mask_not(M32 a) { CAMSHAFT_EACH(M32, !a.m[k]); }

CAMSHAFT_INLINE bool any(M32 a) { return a.m[0] || a.m[1] || a.m[2] || a.m[3]; }

CAMSHAFT_INLINE I32 iset1(int32_t x) { CAMSHAFT_EACH(I32, x); }
CAMSHAFT_INLINE I32 iload(const int32_t* p) { CAMSHAFT_EACH(I32, p[k]); }
CAMSHAFT_INLINE void istore(int32_t* p, I32 a) { std::memcpy(p, a.v, sizeof a.v); }
CAMSHAFT_INLINE I32 iota() { CAMSHAFT_EACH(I32, k); }
// Integer arithmetic wraps, as the vector instructions do.
CAMSHAFT_INLINE int32_t wrap(uint32_t x) { return static_cast<int32_t>(x); }
CAMSHAFT_INLINE uint32_t bits(int32_t x) { return static_cast<uint32_t>(x); }
CAMSHAFT_INLINE I32 operator+(I32 a, I32 b) { CAMSHAFT_EACH(I32, wrap(bits(a.v[k]) + bits(b.v[k]))); }
CAMSHAFT_INLINE I32 operator-(I32 a, I32 b) { CAMSHAFT_EACH(I32, wrap(bits(a.v[k]) - bits(b.v[k]))); }
CAMSHAFT_INLINE I32 operator*(I32 a, I32 b) { CAMSHAFT_EACH(I32, wrap(bits(a.v[k]) * bits(b.v[k]))); }
template <int kBits>
CAMSHAFT_INLINE I32 shift_left(I32 a) { CAMSHAFT_EACH(I32, wrap(bits(a.v[k]) << kBits)); }
template <int kBits>
CAMSHAFT_INLINE I32 shift_right_arithmetic(I32 a) { CAMSHAFT_EACH(I32, a.v[k] >> kBits); }
// Half to even; out of range and NaN give INT32_MIN, as the vector instructions do.
CAMSHAFT_INLINE int32_t to_int_one(float x) {
  return x >= -2147483648.0f && x < 2147483648.0f ? static_cast<int32_t>(__builtin_rintf(x)) : INT32_MIN;
}
CAMSHAFT_INLINE I32 to_int(F32 a) { CAMSHAFT_EACH(I32, to_int_one(a.v[k])); }
CAMSHAFT_INLINE F32 to_float(I32 a) { CAMSHAFT_EACH(F32, static_cast<float>(a.v[k])); }
CAMSHAFT_INLINE F32 bits_as_float(I32 a) {
  F32 result;
  std::memcpy(result.v, a.v, sizeof a.v);
  return result;
}
CAMSHAFT_INLINE I32 bits_as_int(F32 a) {
  I32 result;
  std::memcpy(result.v, a.v, sizeof a.v);
  return result;
}
CAMSHAFT_INLINE F32 gather(const float* p, I32 index) { CAMSHAFT_EACH(F32, p[index.v[k]]); }

CAMSHAFT_INLINE F32 scale_by_power(F32 a, F32 n) {
  const I32 whole = to_int(n), half = shift_right_arithmetic<1>(whole), bias = iset1(127);
  return a * bits_as_float(shift_left<23>(half + bias)) * bits_as_float(shift_left<23>(whole - half + bias));
}

CAMSHAFT_INLINE float reduce_add(F32 a) { return (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]); }
CAMSHAFT_INLINE float reduce_max(F32 a) {
  const float x = a.v[0] > a.v[1] ? a.v[0] : a.v[1], y = a.v[2] > a.v[3] ? a.v[2] : a.v[3];
  return x > y ? x : y;
}
CAMSHAFT_INLINE float reduce_min(F32 a) {
  const float x = a.v[0] < a.v[1] ? a.v[0] : a.v[1], y = a.v[2] < a.v[3] ? a.v[2] : a.v[3];
  return x < y ? x : y;
}

#undef CAMSHAFT_EACH
#undef CAMSHAFT_MEMBER
#undef CAMSHAFT_MEMBER_F32
#undef CAMSHAFT_MEMBER_I32
#undef CAMSHAFT_MEMBER_M32

}  // namespace camshaft::kernels::scalar
