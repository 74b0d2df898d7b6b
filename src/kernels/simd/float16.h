// SPDX-License-Identifier: Apache-2.0
// Vectors of bfloat16 and IEEE half values to floats and back, rounded half to even. NaN stays NaN.
#pragma once

#include <cstring>

#include "ir/types.h"
#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

struct Bf16 {
  uint16_t bits;
};
struct Half {
  uint16_t bits;
};

}  // namespace camshaft::kernels::CAMSHAFT_TARGET

#include CAMSHAFT_SIMD(float16.h)

namespace camshaft::kernels::CAMSHAFT_TARGET {

#if !defined(CAMSHAFT_HAS_BYTE_MASKS)
// The first `count` < kLanes values; other lanes are 0.
template <class T>
CAMSHAFT_INLINE F32 load_floats(const T* p, int64_t count) {
  T lanes[kLanes] = {};
  std::memcpy(lanes, p, static_cast<size_t>(count) * sizeof(T));
  return load_floats(lanes);
}
template <class T>
CAMSHAFT_INLINE void store_floats(T* p, F32 v, int64_t count) {
  T lanes[kLanes];
  store_floats(lanes, v);
  std::memcpy(p, lanes, static_cast<size_t>(count) * sizeof(T));
}
#endif

// Rows of float serve the same templates.
CAMSHAFT_INLINE F32 load_floats(const float* p) {
  return load(p);
}
CAMSHAFT_INLINE void store_floats(float* p, F32 v) {
  store(p, v);
}
CAMSHAFT_INLINE F32 load_floats(const float* p, int64_t count) {
  return load(p, first_n(static_cast<int>(count)));
}
CAMSHAFT_INLINE void store_floats(float* p, F32 v, int64_t count) {
  store(p, v, first_n(static_cast<int>(count)));
}

// Rows from one of the three types to another.
template <class From, class To>
static inline void convert_row(const From* from, To* to, int64_t count) {
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) store_floats(to + k, load_floats(from + k));
  if (k < count) store_floats(to + k, load_floats(from + k, count - k), count - k);
}

// Calls body(T()) with T = float, Bf16 or Half.
template <class Body>
CAMSHAFT_INLINE void with_float_type(ir::DataType type, const Body& body) {
  if (type == ir::DataType::kBFloat16)
    body(Bf16{});
  else if (type == ir::DataType::kHalf)
    body(Half{});
  else
    body(0.0f);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
