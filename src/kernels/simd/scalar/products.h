// SPDX-License-Identifier: Apache-2.0
// Sums of products: bytes, int16 pairs, bfloat16 pairs.
#pragma once

namespace camshaft::kernels::scalar {

// Four bytes a lane.
struct PackedLanes {
  uint8_t byte[4 * kLanes];
};

CAMSHAFT_INLINE PackedLanes load_lanes(const std::byte* p) {
  PackedLanes lanes;
  __builtin_memcpy(lanes.byte, p, sizeof lanes.byte);
  return lanes;
}
CAMSHAFT_INLINE PackedLanes broadcast_lane(const std::byte* p) {
  PackedLanes lanes;
  for (int lane = 0; lane < kLanes; ++lane) __builtin_memcpy(lanes.byte + 4 * lane, p, 4);
  return lanes;
}
CAMSHAFT_INLINE I32 int_lanes(const PackedLanes& packed) {
  I32 lanes;
  __builtin_memcpy(&lanes.v, packed.byte, sizeof lanes.v);
  return lanes;
}
CAMSHAFT_INLINE PackedLanes packed_lanes(Ints lanes) {
  PackedLanes packed;
  __builtin_memcpy(packed.byte, &lanes, sizeof lanes);
  return packed;
}

// Unsigned bytes of a row times signed ones of a column, four to a lane.
struct LaneProduct {
  CAMSHAFT_INLINE_MEMBER void add_product(const PackedLanes& row, const PackedLanes& column,
                                          I32& sum) const {
    int32_t lanes[kLanes];
    istore(lanes, sum);
    for (int k = 0; k < 4 * kLanes; ++k)
      lanes[k / 4] += row.byte[k] * static_cast<int8_t>(column.byte[k]);
    sum = iload(lanes);
  }
};

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

using StreamedPairProduct = PairProduct;

// Keeps products of the same row from being done once for all rounds.
template <class Row>
CAMSHAFT_INLINE void change(Row& row) {
  asm volatile("" : "+m"(row));
}

}  // namespace camshaft::kernels::scalar
