// SPDX-License-Identifier: Apache-2.0
// kLanes bytes to a vector of int32 and back.
#pragma once

namespace camshaft::kernels::scalar {

template <class T>
CAMSHAFT_INLINE I32 load_bytes(const T* p) {
  int32_t lanes[kLanes];
  for (int k = 0; k < kLanes; ++k) lanes[k] = p[k];
  return iload(lanes);
}
template <class T>
CAMSHAFT_INLINE void store_bytes(T* p, I32 a) {
  constexpr int32_t kLow = T(-1) < T(0) ? -128 : 0, kHigh = T(-1) < T(0) ? 127 : 255;
  int32_t lanes[kLanes];
  istore(lanes, a);
  for (int k = 0; k < kLanes; ++k)
    p[k] = static_cast<T>(lanes[k] < kLow ? kLow : lanes[k] > kHigh ? kHigh : lanes[k]);
}
CAMSHAFT_INLINE void store_bytes(uint8_t* p, I32 a, I32 b) {
  store_bytes(p, a), store_bytes(p + kLanes, b);
}
template <class T>
CAMSHAFT_INLINE void store_bytes(T* p, I32 a, I32 b, I32 c, I32 d) {
  store_bytes(p, a), store_bytes(p + kLanes, b), store_bytes(p + 2 * kLanes, c);
  store_bytes(p + 3 * kLanes, d);
}

// The first `count` ≤ kLanes floats. Stores under a mask take many cycles on AVX2.
CAMSHAFT_INLINE void store_first(float* p, F32 v, int count) {
  store(p, v, first_n(count));
}

}  // namespace camshaft::kernels::scalar
