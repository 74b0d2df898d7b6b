// SPDX-License-Identifier: Apache-2.0
// Vectors of bytes that index rows of a table.
#pragma once

#include "kernels/simd/simd.h"

namespace camshaft::kernels::avx512 {

struct Bytes {
  static constexpr int64_t kCount = 64;
  __m512i v;
};
CAMSHAFT_INLINE Bytes load_codes(const uint8_t* p) {
  return {_mm512_loadu_si512(p)};
}
CAMSHAFT_INLINE void store_codes(uint8_t* p, Bytes a) {
  _mm512_storeu_si512(p, a.v);
}
CAMSHAFT_INLINE Bytes repeat(const uint8_t* row) {
  return {_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row)))};
}
CAMSHAFT_INLINE Bytes operator^(Bytes a, Bytes b) {
  return {_mm512_xor_si512(a.v, b.v)};
}
CAMSHAFT_INLINE Bytes less_16(Bytes a) {
  return {_mm512_subs_epi8(a.v, _mm512_set1_epi8(16))};
}
CAMSHAFT_INLINE Bytes half_off(Bytes a) {
  return {_mm512_xor_si512(a.v, _mm512_set1_epi8(-128))};
}
CAMSHAFT_INLINE Bytes pick(Bytes row, Bytes index) {
  return {_mm512_shuffle_epi8(row.v, index.v)};
}

// Two halves of 128 entries, two registers each; bit 7 of the index chooses.
__attribute__((target("avx512vbmi"))) static inline void look_up_permuted(const uint8_t* table,
                                                                          const uint8_t* from,
                                                                          uint8_t* to,
                                                                          int64_t count) {
  const __m512i t0 = _mm512_loadu_si512(table), t1 = _mm512_loadu_si512(table + 64),
                t2 = _mm512_loadu_si512(table + 128), t3 = _mm512_loadu_si512(table + 192);
  const auto look_up = [&](__m512i index) __attribute__((target("avx512vbmi"))) {
    const __m512i low = _mm512_permutex2var_epi8(t0, index, t1),
                  high = _mm512_permutex2var_epi8(t2, index, t3);
    return _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(index), high);
  };
  int64_t k = 0;
  for (; k + 64 <= count; k += 64)
    _mm512_storeu_si512(to + k, look_up(_mm512_loadu_si512(from + k)));
  if (k == count) return;
  const __mmask64 rest = (uint64_t{1} << (count - k)) - 1;
  _mm512_mask_storeu_epi8(to + k, rest, look_up(_mm512_maskz_loadu_epi8(rest, from + k)));
}

// All 256 entries in registers, where the machine can; false: it cannot.
static inline bool look_up_at_once(const uint8_t* table, const uint8_t* from, uint8_t* to,
                                   int64_t count) {
  if (!__builtin_cpu_supports("avx512vbmi")) return false;
  look_up_permuted(table, from, to, count);
  return true;
}

}  // namespace camshaft::kernels::avx512
