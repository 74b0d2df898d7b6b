// SPDX-License-Identifier: Apache-2.0
// Products of int16 pairs, two steps of K in a lane, summed in int32, wrapping. Included by tile
// sources only.
#pragma once

#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

#if defined(CAMSHAFT_TARGET_scalar)

struct PairProduct {
  using Sum = I32;
  struct Row {
    I32 even, odd;
  };
  using Column = Row;

  static CAMSHAFT_INLINE_MEMBER Row halves(I32 pairs) {
    return {shift_right_arithmetic<16>(shift_left<16>(pairs)), shift_right_arithmetic<16>(pairs)};
  }
  CAMSHAFT_INLINE_MEMBER Column column(const std::byte* b) const {
    return halves(iload(reinterpret_cast<const int32_t*>(b)));
  }
  CAMSHAFT_INLINE_MEMBER Row row(const std::byte* a) const {
    int32_t pair;
    __builtin_memcpy(&pair, a, sizeof pair);
    return halves(iset1(pair));
  }
  CAMSHAFT_INLINE_MEMBER void add_product(const Row& row, const Column& column, I32& sum) const {
    sum = sum + row.even * column.even + row.odd * column.odd;
  }
};

#else

CAMSHAFT_INLINE I32 multiply_pairs(I32 a, I32 b) {
#if defined(CAMSHAFT_TARGET_avx512)
  return {_mm512_madd_epi16(a.v, b.v)};
#else
  return {_mm256_madd_epi16(a.v, b.v)};
#endif
}

struct PairProduct {
  using Sum = I32;
  using Row = I32;
  using Column = I32;

  CAMSHAFT_INLINE_MEMBER Column column(const std::byte* b) const {
    return iload(reinterpret_cast<const int32_t*>(b));
  }
  CAMSHAFT_INLINE_MEMBER Row row(const std::byte* a) const {
    int32_t pair;
    __builtin_memcpy(&pair, a, sizeof pair);
    return iset1(pair);
  }
  CAMSHAFT_INLINE_MEMBER void add_product(Row row, Column column, I32& sum) const {
    sum = sum + multiply_pairs(row, column);
  }
};

#endif

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
