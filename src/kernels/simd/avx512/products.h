// SPDX-License-Identifier: Apache-2.0
// Sums of products: bytes, int16 pairs, bfloat16 pairs.
#pragma once

#include "kernels/simd/float16.h"

namespace camshaft::kernels::avx512 {

using PackedLanes = __m512i;  // four bytes a lane

CAMSHAFT_INLINE __m512i load_lanes(const std::byte* p) {
  return _mm512_loadu_si512(p);
}
CAMSHAFT_INLINE __m512i broadcast_lane(const std::byte* p) {
  int32_t lane;
  __builtin_memcpy(&lane, p, sizeof lane);
  return _mm512_set1_epi32(lane);
}

// One instruction with VNNI. Written in assembly: the rest of the source needs no VNNI.
struct VnniProduct {
  using Sum = I32;
  using Row = __m512i;
  using Column = __m512i;

  // Weights stream from L2 and beyond: ResNet-50 takes 2 % less. The address may lie behind them.
  static constexpr uintptr_t kAhead = 4096;
  static constexpr bool kFetchesAhead = true;

  CAMSHAFT_INLINE_MEMBER __m512i column(const std::byte* b) const {
    __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(b) + kAhead));
    return load_lanes(b);
  }
  CAMSHAFT_INLINE_MEMBER __m512i row(const std::byte* a) const { return broadcast_lane(a); }
  CAMSHAFT_INLINE_MEMBER void add_product(__m512i row, __m512i column, I32& sum) const {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.v) : "v"(row), "v"(column));
  }
};
using LaneProduct = VnniProduct;

// Without: even and odd bytes as 16-bit pairs.
struct WordProduct {
  using Sum = I32;
  struct Row {
    __m512i even, odd;
  };
  using Column = Row;

  static CAMSHAFT_INLINE_MEMBER Column column_of(PackedLanes bytes) {
    return {_mm512_srai_epi16(_mm512_slli_epi16(bytes, 8), 8), _mm512_srai_epi16(bytes, 8)};
  }
  static CAMSHAFT_INLINE_MEMBER Row row_of(PackedLanes bytes) {
    return {_mm512_and_si512(bytes, _mm512_set1_epi16(255)), _mm512_srli_epi16(bytes, 8)};
  }
  CAMSHAFT_INLINE_MEMBER Column column(const std::byte* b) const {
    return column_of(load_lanes(b));
  }
  CAMSHAFT_INLINE_MEMBER Row row(const std::byte* a) const { return row_of(broadcast_lane(a)); }
  CAMSHAFT_INLINE_MEMBER void add_product(Row row, Column column, I32& sum) const {
    sum.v = _mm512_add_epi32(sum.v, _mm512_madd_epi16(row.even, column.even));
    sum.v = _mm512_add_epi32(sum.v, _mm512_madd_epi16(row.odd, column.odd));
  }
};

CAMSHAFT_INLINE I32 multiply_pairs(I32 a, I32 b) {
  return {_mm512_madd_epi16(a.v, b.v)};
}

// Adds the products of two pairs at once. Written in assembly: the rest of the source needs no
// VNNI.
CAMSHAFT_INLINE void add_pairs_by_vnni(I32 a, I32 b, I32& sum) {
  asm("vpdpwssd %2, %1, %0" : "+v"(sum.v) : "v"(a.v), "v"(b.v));
}

// How an arithmetic stores where there is AVX-512 BF16. In assembly: the sources need no BF16.
struct StoresByInstruction {
  static CAMSHAFT_INLINE_MEMBER __m256i narrowed(F32 v) {
    __m256i words;
    asm("vcvtneps2bf16 %1, %0" : "=v"(words) : "v"(v.v));
    return words;
  }
  static CAMSHAFT_INLINE_MEMBER void put(float* c, F32 v) { store(c, v); }
  static CAMSHAFT_INLINE_MEMBER void put(float* c, F32 v, int64_t count) {
    store(c, v, first_n(static_cast<int>(count)));
  }
  static CAMSHAFT_INLINE_MEMBER void put(Bf16* c, F32 v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(c), narrowed(v));
  }
  static CAMSHAFT_INLINE_MEMBER void put(Bf16* c, F32 v, int64_t count) {
    _mm256_mask_storeu_epi16(c, first_n(static_cast<int>(count)).m, narrowed(v));
  }
};

// Written in assembly: the rest of the source needs no BF16.
struct Dpbf16Product : StoresByInstruction {
  using Sum = F32;
  using Row = __m512i;
  using Column = __m512i;
  static constexpr bool kFetchesAhead = true;

  CAMSHAFT_INLINE_MEMBER __m512i column(const std::byte* b) const { return _mm512_loadu_si512(b); }
  CAMSHAFT_INLINE_MEMBER __m512i row(const std::byte* a) const {
    int32_t pair;
    __builtin_memcpy(&pair, a, sizeof pair);
    return _mm512_set1_epi32(pair);
  }
  CAMSHAFT_INLINE_MEMBER void add_product(__m512i row, __m512i column, F32& sum) const {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.v) : "v"(row), "v"(column));
  }
};

// Keeps products of the same row from being done once for all rounds.
template <class Row>
CAMSHAFT_INLINE void change(Row& row) {
  if constexpr (requires { row.even; }) asm volatile("" : "+v"(row.even), "+v"(row.odd));
}

}  // namespace camshaft::kernels::avx512
