// SPDX-License-Identifier: Apache-2.0
// kLanes bytes to a vector of int32 and back, with saturation; also 2 and 4 * kLanes at once and
// fewer than kLanes. store_codes takes values in [0, 255].
#pragma once

#include <cstring>

#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

inline constexpr int32_t kLargestOffset = 32000;

// The code of a bound of values; rounding is monotone.
CAMSHAFT_INLINE uint8_t code_of(float bound, int32_t offset) {
  constexpr float kFar = 1e6F;
  const float near = bound < -kFar ? -kFar : bound > kFar ? kFar : bound;
  const int32_t code = static_cast<int32_t>(__builtin_nearbyintf(near)) + offset;
  return static_cast<uint8_t>(code < 0 ? 0 : code > 255 ? 255 : code);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET

#include CAMSHAFT_SIMD(bytes.h)

namespace camshaft::kernels::CAMSHAFT_TARGET {

// The first `count` ≤ kLanes bytes; other lanes are 0.
template <class T>
CAMSHAFT_INLINE I32 load_bytes(const T* p, int64_t count) {
  T bytes[kLanes] = {};
  std::memcpy(bytes, p, static_cast<size_t>(count));
  return load_bytes(bytes);
}
template <class T>
CAMSHAFT_INLINE void store_bytes(T* p, I32 a, int64_t count) {
  T bytes[kLanes];
  store_bytes(bytes, a);
  std::memcpy(p, bytes, static_cast<size_t>(count));
}

#if !defined(CAMSHAFT_HAS_BYTE_MASKS)
CAMSHAFT_INLINE void store_codes(uint8_t* p, I32 a) {
  store_bytes(p, a);
}
CAMSHAFT_INLINE void store_codes(uint8_t* p, I32 a, int count) {
  store_bytes(p, a, static_cast<int64_t>(count));
}
#endif

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
