// SPDX-License-Identifier: Apache-2.0
// Rows of 8-bit codes or bools to floats and back.
#pragma once

#include "kernels/simd/bytes.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

template <class Q>
inline constexpr float kLowestCode = Q(-1) < Q(0) ? -128.0f : 0.0f;
template <class Q>
inline constexpr float kHighestCode = Q(-1) < Q(0) ? 127.0f : 255.0f;

template <class Q>
static inline void widen_row(const Q* from, float* to, int64_t count) {
  int64_t k = 0;
  for (; k + 4 * kLanes <= count; k += 4 * kLanes) {
#pragma GCC unroll 4
    for (int v = 0; v < 4 * kLanes; v += kLanes)
      store(to + k + v, to_float(load_bytes(from + k + v)));
  }
  for (; k + kLanes <= count; k += kLanes) store(to + k, to_float(load_bytes(from + k)));
  if (k < count)
    store(to + k, to_float(load_bytes(from + k, count - k)), first_n(static_cast<int>(count - k)));
}

// Rounded half to even and saturated. NaN becomes 0 in uint8.
template <class Q>
CAMSHAFT_INLINE I32 to_code(F32 v) {
  return to_int(min(max(v, set1(kLowestCode<Q>)), set1(kHighestCode<Q>)));
}

template <class Q>
static inline void narrow_row(const float* from, Q* to, int64_t count) {
  int64_t k = 0;
  for (; k + 4 * kLanes <= count; k += 4 * kLanes)
    store_bytes(to + k, to_code<Q>(load(from + k)), to_code<Q>(load(from + k + kLanes)),
                to_code<Q>(load(from + k + 2 * kLanes)), to_code<Q>(load(from + k + 3 * kLanes)));
  for (; k + kLanes <= count; k += kLanes) store_bytes(to + k, to_code<Q>(load(from + k)));
  if (k < count)
    store_bytes(to + k, to_code<Q>(load(from + k, first_n(static_cast<int>(count - k)))),
                count - k);
}

// Any byte but 0 is true.
static inline void widen_bools(const uint8_t* from, float* to, int64_t count) {
  for (int64_t k = 0; k < count; ++k) to[k] = from[k] != 0 ? 1.0f : 0.0f;
}
static inline void narrow_bools(const float* from, uint8_t* to, int64_t count) {
  for (int64_t k = 0; k < count; ++k) to[k] = from[k] != 0 ? 1 : 0;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
