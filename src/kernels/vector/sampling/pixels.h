// SPDX-License-Identifier: Apache-2.0
// Vectors of pixels of any type, as floats.
#pragma once

#include "kernels/simd/bytes.h"
#include "kernels/simd/float16.h"
#include "kernels/vector/counts.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// T: float, bfloat16, half, uint8_t or int8_t. Codes are blended as floats and rounded half to
// even.
CAMSHAFT_INLINE F32 fetch(const float* p, int64_t count) {
  return count >= kLanes ? load(p) : load(p, first_n(static_cast<int>(count)));
}
CAMSHAFT_INLINE void put(float* p, F32 v, int64_t count) {
  count >= kLanes ? store(p, v) : store_first(p, v, static_cast<int>(count));
}
CAMSHAFT_INLINE F32 fetch(const Bf16* p, int64_t count) {
  return count >= kLanes ? load_floats(p) : load_floats(p, count);
}
CAMSHAFT_INLINE F32 fetch(const Half* p, int64_t count) {
  return count >= kLanes ? load_floats(p) : load_floats(p, count);
}
CAMSHAFT_INLINE void put(Bf16* p, F32 v, int64_t count) {
  count >= kLanes ? store_floats(p, v) : store_floats(p, v, count);
}
CAMSHAFT_INLINE void put(Half* p, F32 v, int64_t count) {
  count >= kLanes ? store_floats(p, v) : store_floats(p, v, count);
}
template <class T>
CAMSHAFT_INLINE F32 fetch(const T* p, int64_t count) {
  return to_float(count >= kLanes ? load_bytes(p) : load_bytes(p, count));
}
template <class T>
CAMSHAFT_INLINE void put(T* p, F32 v, int64_t count) {
  count >= kLanes ? store_bytes(p, to_int(v)) : store_bytes(p, to_int(v), count);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
