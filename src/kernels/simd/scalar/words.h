// SPDX-License-Identifier: Apache-2.0
// Vectors of int16.
#pragma once

#include <cstddef>
#include <cstring>

namespace camshaft::kernels::scalar {

inline constexpr int kWords = 2 * kLanes;

typedef uint16_t WordLanes __attribute__((vector_size(16)));  // unsigned: it wraps
struct W16 {
  WordLanes v;
};
CAMSHAFT_INLINE W16 wset1(int16_t x) {
  const uint16_t w = static_cast<uint16_t>(x);
  return {WordLanes{w, w, w, w, w, w, w, w}};
}
CAMSHAFT_INLINE W16 wload(const int16_t* p) {
  W16 result;
  std::memcpy(&result.v, p, sizeof result.v);
  return result;
}
CAMSHAFT_INLINE void wstore(int16_t* p, W16 a) {
  std::memcpy(p, &a.v, sizeof a.v);
}
CAMSHAFT_INLINE W16 operator+(W16 a, W16 b) {
  return {a.v + b.v};
}
CAMSHAFT_INLINE W16 operator-(W16 a, W16 b) {
  return {a.v - b.v};
}
template <int kBits>
CAMSHAFT_INLINE W16 shift_left(W16 a) {
  return {a.v << kBits};
}
CAMSHAFT_INLINE W16 load_codes(const uint8_t* p) {
  W16 result;
  for (int k = 0; k < kWords; ++k) result.v[k] = p[k];
  return result;
}

}  // namespace camshaft::kernels::scalar
