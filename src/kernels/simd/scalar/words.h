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

// A pair of words in every lane, and the sums of products of neighbouring words.
CAMSHAFT_INLINE W16 broadcast_pair(const int16_t* p) {
  W16 result;
  for (int k = 0; k < kWords; ++k) result.v[k] = static_cast<uint16_t>(p[k % 2]);
  return result;
}
CAMSHAFT_INLINE I32 pair_sums(W16 a, W16 b) {
  const auto product = [&](int k) {
    return static_cast<int16_t>(a.v[k]) * static_cast<int16_t>(b.v[k]);
  };
  int32_t lanes[kLanes];
  for (int k = 0; k < kLanes; ++k) lanes[k] = product(2 * k) + product(2 * k + 1);
  return iload(lanes);
}

// kLanes words to a vector of int32 and back, saturated.
template <class T>
CAMSHAFT_INLINE I32 load_words(const T* p) {
  int32_t lanes[kLanes];
  for (int k = 0; k < kLanes; ++k) lanes[k] = p[k];
  return iload(lanes);
}
template <class T>
CAMSHAFT_INLINE void store_words(T* p, I32 a) {
  constexpr int32_t kLow = T(-1) < T(0) ? -32768 : 0, kHigh = T(-1) < T(0) ? 32767 : 65535;
  int32_t lanes[kLanes];
  istore(lanes, a);
  for (int k = 0; k < kLanes; ++k)
    p[k] = static_cast<T>(lanes[k] < kLow ? kLow : lanes[k] > kHigh ? kHigh : lanes[k]);
}

}  // namespace camshaft::kernels::scalar
