// SPDX-License-Identifier: Apache-2.0
// Sums of products: bytes, int16 pairs, bfloat16 pairs.
#pragma once

namespace camshaft::kernels::avx2 {

using PackedLanes = __m256i;  // four bytes a lane

CAMSHAFT_INLINE __m256i load_lanes(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
CAMSHAFT_INLINE __m256i broadcast_lane(const std::byte* p) {
  int32_t lane;
  __builtin_memcpy(&lane, p, sizeof lane);
  return _mm256_set1_epi32(lane);
}

// Of machines with AVX-VNNI.
struct VnniProduct {
  using Sum = I32;
  using Row = __m256i;
  using Column = __m256i;

  CAMSHAFT_INLINE_MEMBER __m256i column(const std::byte* b) const { return load_lanes(b); }
  CAMSHAFT_INLINE_MEMBER __m256i row(const std::byte* a) const { return broadcast_lane(a); }
  CAMSHAFT_INLINE_MEMBER void add_product(__m256i row, __m256i column, I32& sum) const {
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum.v) : "x"(row), "x"(column));
  }
};
using LaneProduct = VnniProduct;

struct WordProduct {
  using Sum = I32;
  struct Row {
    __m256i even, odd;
  };
  using Column = Row;

  static CAMSHAFT_INLINE_MEMBER Column column_of(PackedLanes bytes) {
    return {_mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8), _mm256_srai_epi16(bytes, 8)};
  }
  static CAMSHAFT_INLINE_MEMBER Row row_of(PackedLanes bytes) {
    return {_mm256_and_si256(bytes, _mm256_set1_epi16(255)), _mm256_srli_epi16(bytes, 8)};
  }
  CAMSHAFT_INLINE_MEMBER Column column(const std::byte* b) const {
    return column_of(load_lanes(b));
  }
  CAMSHAFT_INLINE_MEMBER Row row(const std::byte* a) const { return row_of(broadcast_lane(a)); }
  CAMSHAFT_INLINE_MEMBER void add_product(Row row, Column column, I32& sum) const {
    sum.v = _mm256_add_epi32(sum.v, _mm256_madd_epi16(row.even, column.even));
    sum.v = _mm256_add_epi32(sum.v, _mm256_madd_epi16(row.odd, column.odd));
  }
};

// Sums of two products of bytes in 16 bits, which saturate: exact where packing proved it
// (gemm_chains.h).
CAMSHAFT_INLINE PackedLanes multiply_byte_pairs(PackedLanes codes, PackedLanes weights) {
  return _mm256_maddubs_epi16(codes, weights);
}
CAMSHAFT_INLINE PackedLanes add_pair_sums(PackedLanes a, PackedLanes b) {
  return _mm256_add_epi16(a, b);
}
CAMSHAFT_INLINE I32 widened_pair_sums(PackedLanes pairs) {
  return {_mm256_madd_epi16(pairs, _mm256_set1_epi16(1))};
}
CAMSHAFT_INLINE void widen_pair_sums(PackedLanes pairs, I32& sum) {
  sum = sum + widened_pair_sums(pairs);
}
// Keeps the compiler from adding in another order: it would need more registers than there are.
CAMSHAFT_INLINE void keep_order(PackedLanes& value) {
  asm("" : "+x"(value));
}
CAMSHAFT_INLINE void keep_order(I32& value) {
  keep_order(value.v);
}

CAMSHAFT_INLINE I32 multiply_pairs(I32 a, I32 b) {
  return {_mm256_madd_epi16(a.v, b.v)};
}

// Adds the products of two pairs at once. Written in assembly: the rest of the source needs no
// VNNI.
CAMSHAFT_INLINE void add_pairs_by_vnni(I32 a, I32 b, I32& sum) {
  asm("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sum.v) : "x"(a.v), "x"(b.v));
}

// Keeps products of the same row from being done once for all rounds.
template <class Row>
CAMSHAFT_INLINE void change(Row& row) {
  if constexpr (requires { row.even; }) asm volatile("" : "+x"(row.even), "+x"(row.odd));
}

}  // namespace camshaft::kernels::avx2
