// SPDX-License-Identifier: Apache-2.0
// No special instructions: 4 floats as the compiler's generic vector, which becomes whatever the
// machine has (SSE2 on any x86-64). The oracle of the vector layer, and the target for processors
// without AVX2. Generic vectors, not arrays: the compiler took 90 s for a kernel file written over
// arrays of 4, 3 s over these.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/cpu.h"

#define CAMSHAFT_INLINE static inline __attribute__((always_inline))
#define CAMSHAFT_INLINE_MEMBER inline __attribute__((always_inline))

namespace camshaft::kernels::scalar {

inline constexpr Isa kIsa = Isa::kScalar;
inline constexpr int kLanes = 4;
inline constexpr int kRegisters = 16;

typedef float Floats __attribute__((vector_size(16)));
typedef int32_t Ints __attribute__((vector_size(16)));
typedef uint32_t Words __attribute__((vector_size(16)));

struct F32 {
  Floats v;
};
struct I32 {
  Ints v;
};
struct M32 {
  Ints m;
};  // -1 or 0 per lane

CAMSHAFT_INLINE F32 set1(float x) {
  return {Floats{x, x, x, x}};
}
CAMSHAFT_INLINE F32 zero() {
  return set1(0);
}
CAMSHAFT_INLINE F32 load(const float* p) {
  F32 result;
  std::memcpy(&result.v, p, sizeof result.v);
  return result;
}
CAMSHAFT_INLINE void store(float* p, F32 a) {
  std::memcpy(p, &a.v, sizeof a.v);
}
CAMSHAFT_INLINE M32 first_n(int n) {
  return {Ints{0, 1, 2, 3} < Ints{n, n, n, n}};
}
CAMSHAFT_INLINE F32 load(const float* p, M32 m) {
  F32 result = zero();
  for (int k = 0; k < kLanes; ++k)
    if (m.m[k]) result.v[k] = p[k];
  return result;
}
CAMSHAFT_INLINE void store(float* p, F32 a, M32 m) {
  for (int k = 0; k < kLanes; ++k)
    if (m.m[k]) p[k] = a.v[k];
}

// Another instruction set needs this to keep a value it would load again.
CAMSHAFT_INLINE void keep_in_register(F32&) {}

CAMSHAFT_INLINE F32 bits_as_float(I32 a) {
  return {reinterpret_cast<Floats>(a.v)};
}
CAMSHAFT_INLINE I32 bits_as_int(F32 a) {
  return {reinterpret_cast<Ints>(a.v)};
}
CAMSHAFT_INLINE F32 select(M32 m, F32 a, F32 b) {
  return {reinterpret_cast<Floats>((reinterpret_cast<Ints>(a.v) & m.m) |
                                   (reinterpret_cast<Ints>(b.v) & ~m.m))};
}

CAMSHAFT_INLINE F32 operator+(F32 a, F32 b) {
  return {a.v + b.v};
}
CAMSHAFT_INLINE F32 operator-(F32 a, F32 b) {
  return {a.v - b.v};
}
CAMSHAFT_INLINE F32 operator*(F32 a, F32 b) {
  return {a.v * b.v};
}
CAMSHAFT_INLINE F32 operator/(F32 a, F32 b) {
  return {a.v / b.v};
}
CAMSHAFT_INLINE F32 fma(F32 a, F32 b, F32 c) {
  return {a.v * b.v + c.v};
}
CAMSHAFT_INLINE F32 fnma(F32 a, F32 b, F32 c) {
  return {c.v - a.v * b.v};
}
// min and max give b where an operand is NaN, as the instructions of the other sets do.
CAMSHAFT_INLINE F32 min(F32 a, F32 b) {
  return select({a.v < b.v}, a, b);
}
CAMSHAFT_INLINE F32 max(F32 a, F32 b) {
  return select({a.v > b.v}, a, b);
}

CAMSHAFT_INLINE I32 iset1(int32_t x) {
  return {Ints{x, x, x, x}};
}
CAMSHAFT_INLINE F32 abs(F32 a) {
  return bits_as_float({bits_as_int(a).v & 0x7fffffff});
}
CAMSHAFT_INLINE F32 neg(F32 a) {
  return {-a.v};
}
CAMSHAFT_INLINE F32 copysign(F32 magnitude, F32 sign) {
  return bits_as_float(
      {(bits_as_int(magnitude).v & 0x7fffffff) | (bits_as_int(sign).v & INT32_MIN)});
}
#define CAMSHAFT_EACH(expression)                              \
  F32 result;                                                  \
  for (int k = 0; k < kLanes; ++k) result.v[k] = (expression); \
  return result
CAMSHAFT_INLINE F32 sqrt(F32 a) {
  CAMSHAFT_EACH(__builtin_sqrtf(a.v[k]));
}
CAMSHAFT_INLINE F32 round_even(F32 a) {
  CAMSHAFT_EACH(__builtin_rintf(a.v[k]));
}
CAMSHAFT_INLINE F32 floor(F32 a) {
  CAMSHAFT_EACH(__builtin_floorf(a.v[k]));
}
CAMSHAFT_INLINE F32 ceil(F32 a) {
  CAMSHAFT_EACH(__builtin_ceilf(a.v[k]));
}

CAMSHAFT_INLINE M32 less(F32 a, F32 b) {
  return {a.v < b.v};
}
CAMSHAFT_INLINE M32 less_equal(F32 a, F32 b) {
  return {a.v <= b.v};
}
CAMSHAFT_INLINE M32 equal(F32 a, F32 b) {
  return {a.v == b.v};
}
CAMSHAFT_INLINE M32 not_equal(F32 a, F32 b) {
  return {a.v != b.v};
}
CAMSHAFT_INLINE M32 is_nan(F32 a) {
  return {a.v != a.v};
}
CAMSHAFT_INLINE M32 mask_and(M32 a, M32 b) {
  return {a.m & b.m};
}
CAMSHAFT_INLINE M32 mask_or(M32 a, M32 b) {
  return {a.m | b.m};
}
CAMSHAFT_INLINE M32 mask_xor(M32 a, M32 b) {
  return {a.m ^ b.m};
}
CAMSHAFT_INLINE M32 mask_not(M32 a) {
  return {~a.m};
}
CAMSHAFT_INLINE bool any(M32 a) {
  return (a.m[0] | a.m[1] | a.m[2] | a.m[3]) != 0;
}

CAMSHAFT_INLINE I32 iload(const int32_t* p) {
  I32 result;
  std::memcpy(&result.v, p, sizeof result.v);
  return result;
}
CAMSHAFT_INLINE void istore(int32_t* p, I32 a) {
  std::memcpy(p, &a.v, sizeof a.v);
}
CAMSHAFT_INLINE I32 iota() {
  return {Ints{0, 1, 2, 3}};
}
// Integer arithmetic wraps, as the vector instructions do.
CAMSHAFT_INLINE Words words(I32 a) {
  return reinterpret_cast<Words>(a.v);
}
CAMSHAFT_INLINE I32 operator+(I32 a, I32 b) {
  return {reinterpret_cast<Ints>(words(a) + words(b))};
}
CAMSHAFT_INLINE I32 operator-(I32 a, I32 b) {
  return {reinterpret_cast<Ints>(words(a) - words(b))};
}
CAMSHAFT_INLINE I32 operator*(I32 a, I32 b) {
  return {reinterpret_cast<Ints>(words(a) * words(b))};
}
template <int kBits>
CAMSHAFT_INLINE I32 shift_left(I32 a) {
  return {reinterpret_cast<Ints>(words(a) << kBits)};
}
template <int kBits>
CAMSHAFT_INLINE I32 shift_right_arithmetic(I32 a) {
  return {a.v >> kBits};
}
// Half to even; out of range and NaN give INT32_MIN, as the vector instructions do.
CAMSHAFT_INLINE int32_t to_int_one(float x) {
  return x >= -2147483648.0f && x < 2147483648.0f ? static_cast<int32_t>(__builtin_rintf(x))
                                                  : INT32_MIN;
}
CAMSHAFT_INLINE I32 to_int(F32 a) {
  I32 result;
  for (int k = 0; k < kLanes; ++k) result.v[k] = to_int_one(a.v[k]);
  return result;
}
CAMSHAFT_INLINE F32 to_float(I32 a) {
  return {__builtin_convertvector(a.v, Floats)};
}
CAMSHAFT_INLINE F32 load_at(const float* p, I32 index) {
  CAMSHAFT_EACH(p[index.v[k]]);
}

CAMSHAFT_INLINE F32 scale_by_power(F32 a, F32 n) {
  const I32 whole = to_int(n), half = shift_right_arithmetic<1>(whole), bias = iset1(127);
  return a * bits_as_float(shift_left<23>(half + bias)) *
         bits_as_float(shift_left<23>(whole - half + bias));
}

CAMSHAFT_INLINE F32 permute(F32 a, I32 index) {
  CAMSHAFT_EACH(a.v[index.v[k] & (kLanes - 1)]);
}

CAMSHAFT_INLINE float reduce_add(F32 a) {
  return (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]);
}
CAMSHAFT_INLINE float reduce_max(F32 a) {
  const float x = a.v[0] > a.v[1] ? a.v[0] : a.v[1], y = a.v[2] > a.v[3] ? a.v[2] : a.v[3];
  return x > y ? x : y;
}
CAMSHAFT_INLINE float reduce_min(F32 a) {
  const float x = a.v[0] < a.v[1] ? a.v[0] : a.v[1], y = a.v[2] < a.v[3] ? a.v[2] : a.v[3];
  return x < y ? x : y;
}

#undef CAMSHAFT_EACH

}  // namespace camshaft::kernels::scalar
