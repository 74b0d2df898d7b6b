// SPDX-License-Identifier: Apache-2.0
// Products that are summed, as register tiles want them: row(a) broadcasts a lane of A, column(b)
// is a vector of B, add_product adds to a Sum. PackedLanes are bytes as they lie, four a lane.
//   LaneProduct: add_product of PackedLanes, unsigned times signed, by VNNI or one by one
//   WordProduct: unsigned times signed bytes, four neighbours to an int32, exactly; VnniProduct:
//   the same in one instruction PairProduct, StreamedPairProduct (fetches B ahead),
//   VnniPairProduct: int16 pairs to an int32, wrapping Dpbf16Product: bfloat16 pairs to a float
#pragma once

#include "kernels/simd/simd.h"

#include CAMSHAFT_SIMD(products.h)

#if defined(CAMSHAFT_HAS_VNNI)

namespace camshaft::kernels::CAMSHAFT_TARGET {

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

// Weights stream from L2 and beyond.
struct StreamedPairProduct : PairProduct {
  static constexpr uintptr_t kAhead = 4096;

  CAMSHAFT_INLINE_MEMBER Column column(const std::byte* b) const {
    __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(b) + kAhead));
    return PairProduct::column(b);
  }
};

struct VnniPairProduct : StreamedPairProduct {
  CAMSHAFT_INLINE_MEMBER void add_product(Row row, Column column, I32& sum) const {
    add_pairs_by_vnni(row, column, sum);
  }
};

}  // namespace camshaft::kernels::CAMSHAFT_TARGET

#endif
