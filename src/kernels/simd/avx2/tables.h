// SPDX-License-Identifier: Apache-2.0
// Vectors of bytes that index rows of a table.
#pragma once

#include "kernels/simd/simd.h"

namespace camshaft::kernels::avx2 {

struct Bytes {
  static constexpr int64_t kCount = 32;
  __m256i v;
};
CAMSHAFT_INLINE Bytes load_codes(const uint8_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
CAMSHAFT_INLINE void store_codes(uint8_t* p, Bytes a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v);
}
CAMSHAFT_INLINE Bytes repeat(const uint8_t* row) {
  return {_mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row)))};
}
CAMSHAFT_INLINE Bytes operator^(Bytes a, Bytes b) {
  return {_mm256_xor_si256(a.v, b.v)};
}
CAMSHAFT_INLINE Bytes less_16(Bytes a) {
  return {_mm256_subs_epi8(a.v, _mm256_set1_epi8(16))};
}
CAMSHAFT_INLINE Bytes half_off(Bytes a) {
  return {_mm256_xor_si256(a.v, _mm256_set1_epi8(-128))};
}
CAMSHAFT_INLINE Bytes pick(Bytes row, Bytes index) {
  return {_mm256_shuffle_epi8(row.v, index.v)};
}

CAMSHAFT_INLINE bool look_up_at_once(const uint8_t*, const uint8_t*, uint8_t*, int64_t) {
  return false;
}

}  // namespace camshaft::kernels::avx2
