// SPDX-License-Identifier: Apache-2.0
// Unsigned bytes times signed bytes, four neighbours summed into an int32, exactly: the arithmetics
// of byte tiles.
#pragma once

#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

#if defined(CAMSHAFT_TARGET_avx512)

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

// Without: even and odd bytes as 16-bit pairs.
struct WordProduct {
  using Sum = I32;
  struct Row {
    __m512i even, odd;
  };
  using Column = Row;

  CAMSHAFT_INLINE_MEMBER Column column(const std::byte* b) const {
    const __m512i bytes = load_lanes(b);
    return {_mm512_srai_epi16(_mm512_slli_epi16(bytes, 8), 8), _mm512_srai_epi16(bytes, 8)};
  }
  CAMSHAFT_INLINE_MEMBER Row row(const std::byte* a) const {
    const __m512i bytes = broadcast_lane(a);
    return {_mm512_and_si512(bytes, _mm512_set1_epi16(255)), _mm512_srli_epi16(bytes, 8)};
  }
  CAMSHAFT_INLINE_MEMBER void add_product(Row row, Column column, I32& sum) const {
    sum.v = _mm512_add_epi32(sum.v, _mm512_madd_epi16(row.even, column.even));
    sum.v = _mm512_add_epi32(sum.v, _mm512_madd_epi16(row.odd, column.odd));
  }
};

#elif defined(CAMSHAFT_TARGET_avx2)

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

struct WordProduct {
  using Sum = I32;
  struct Row {
    __m256i even, odd;
  };
  using Column = Row;

  CAMSHAFT_INLINE_MEMBER Column column(const std::byte* b) const {
    const __m256i bytes = load_lanes(b);
    return {_mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8), _mm256_srai_epi16(bytes, 8)};
  }
  CAMSHAFT_INLINE_MEMBER Row row(const std::byte* a) const {
    const __m256i bytes = broadcast_lane(a);
    return {_mm256_and_si256(bytes, _mm256_set1_epi16(255)), _mm256_srli_epi16(bytes, 8)};
  }
  CAMSHAFT_INLINE_MEMBER void add_product(Row row, Column column, I32& sum) const {
    sum.v = _mm256_add_epi32(sum.v, _mm256_madd_epi16(row.even, column.even));
    sum.v = _mm256_add_epi32(sum.v, _mm256_madd_epi16(row.odd, column.odd));
  }
};

#else

struct WordProduct {
  using Sum = I32;
  struct Row {
    I32 byte[4];
  };
  using Column = Row;

  CAMSHAFT_INLINE_MEMBER Column column(const std::byte* b) const {
    I32 lanes;
    __builtin_memcpy(&lanes.v, b, sizeof lanes.v);
    return {{shift_right_arithmetic<24>(shift_left<24>(lanes)),
             shift_right_arithmetic<24>(shift_left<16>(lanes)),
             shift_right_arithmetic<24>(shift_left<8>(lanes)), shift_right_arithmetic<24>(lanes)}};
  }
  CAMSHAFT_INLINE_MEMBER Row row(const std::byte* a) const {
    const auto byte = [a](int k) { return iset1(std::to_integer<int32_t>(a[k])); };
    return {{byte(0), byte(1), byte(2), byte(3)}};
  }
  CAMSHAFT_INLINE_MEMBER void add_product(const Row& row, const Column& column, I32& sum) const {
    for (int k = 0; k < 4; ++k) sum = sum + row.byte[k] * column.byte[k];
  }
};

#endif

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
