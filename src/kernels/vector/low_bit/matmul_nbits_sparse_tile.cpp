// SPDX-License-Identifier: Apache-2.0
// The tiles of matmul_nbits over codes that are 2:4: each column picks, of eight neighbouring bytes
// of a row, the four its codes are for. Zero points count for those only, so sums of the picked
// bytes are kept beside the products. Read from memory it is 0.75 of the bytes of dense codes, and
// the scales.
#include "kernels/simd/picks.h"
#include "kernels/vector/low_bit/matmul_nbits_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

// Eight neighbours of a row, over and over, from two of its dwords; what was picked as a row.
#if defined(CAMSHAFT_HAS_VNNI)
CAMSHAFT_INLINE PackedLanes eight_of(const int32_t* low, const int32_t* high) {
  return alternate(broadcast(*low), broadcast(*high));
}
CAMSHAFT_INLINE Dwords row_of(PackedLanes picked) {
  return picked;
}
CAMSHAFT_INLINE Dwords broadcast_codes(int32_t codes) {
  return broadcast(codes);
}
#else
CAMSHAFT_INLINE PackedLanes eight_of(const int32_t* low, const int32_t* high) {
  PackedLanes eight;
  for (int lane = 0; lane < kLanes; ++lane)
    __builtin_memcpy(eight.byte + 4 * lane, lane % 2 == 0 ? low : high, 4);
  return eight;
}
CAMSHAFT_INLINE I32 row_of(const PackedLanes& picked) {
  return int_lanes(picked);
}
CAMSHAFT_INLINE I32 broadcast_codes(int32_t codes) {
  return iset1(codes);
}
#endif

constexpr int kBits = 4;
constexpr int64_t kRowBytes = kPanelVecs * kBytesPerVec;  // of a panel

template <class Bits, int kPlanes, int kRows, int kVecs>
struct SparseTileGroup {
  using Sum = typename Bits::Sum;
  Sum products[kRows][kPlanes][kVecs], kept[kRows][kPlanes][kVecs];
  F32 y[kRows][kVecs];

  CAMSHAFT_INLINE_MEMBER void begin() {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int p = 0; p < kPlanes; ++p)
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v) products[r][p][v] = kept[r][p][v] = Bits::start(0);
  }

  // Eight neighbours of every column; `at`: the rows of a group.
  template <int kEight>
  CAMSHAFT_INLINE_MEMBER void add_eight(const std::byte* at, const int32_t* digits) {
    const typename Bits::Codes ones = Bits::codes(broadcast_codes(0x01010101), 0);
    typename Bits::Codes codes[kVecs];
    PackedLanes positions[kVecs];
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      codes[v] = Bits::codes(load_dwords(at + (1 + kEight / 2) * kRowBytes + v * kBytesPerVec),
                             kEight % 2 * kBits);
      positions[v] = unpack_positions<kEight>(load_lanes(at + v * kBytesPerVec));
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int p = 0; p < kPlanes; ++p) {
        const int32_t* low = digits + (2 * kEight * kRows + r) * kPlanes + p;
        const PackedLanes eight = eight_of(low, low + kRows * kPlanes);
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v) {
          const auto row = row_of(pick(eight, positions[v]));
          Bits::add(codes[v], row, products[r][p][v]);
          Bits::add(ones, row, kept[r][p][v]);
        }
      }
  }

  CAMSHAFT_INLINE_MEMBER void add_group(const std::byte* at, const int32_t* digits) {
    if constexpr (kRows == 1)
#pragma GCC unroll 16
      for (int64_t line = 0; line < kSparseRows * kVecs * kBytesPerVec; line += 64)
        fetch_ahead(at + line / (kVecs * kBytesPerVec) * kRowBytes + line % (kVecs * kBytesPerVec));
    add_eight<0>(at, digits);
    add_eight<1>(at, digits);
    add_eight<2>(at, digits);
    add_eight<3>(at, digits);
  }

  CAMSHAFT_INLINE_MEMBER F32 plane(int r, int p, int v, I32 zero) const {
    return to_float(Bits::total(products[r][p][v], 0) - zero * Bits::total(kept[r][p][v], 0));
  }
  CAMSHAFT_INLINE_MEMBER F32 value(int r, int v, I32 zero) const {
    F32 value = plane(r, 0, v, zero);
#pragma GCC unroll 4
    for (int p = 1; p < kPlanes; ++p) value = fma(value, set1(256), plane(r, p, v, zero));
    return value;
  }

  // What the sums of a part add to y. `zeros`: bytes, or null: all are the centre.
  CAMSHAFT_INLINE_MEMBER void end(const PartOfRow<kPlanes>* part, const float* scales,
                                  const uint8_t* zeros, int centre) {
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      const F32 scale = load(scales + v * kLanes);
      const I32 zero = zeros ? load_bytes(zeros + v * kLanes) : iset1(centre);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
        y[r][v] = fma(value(r, v, zero) * set1(part[r].unit), scale, y[r][v]);
    }
  }
};

template <class Bits, int kPlanes, int kRows, int kVecs>
void run_sparse_tile(const BitTile& t) {
  constexpr int64_t kPartDwords = Bits::kPart * kBits / 32;
  const BitGeometry& g = *t.geometry;
  for (int first = 0; first < kPanelVecs && first * kLanes < t.columns; first += kVecs) {
    SparseTileGroup<Bits, kPlanes, kRows, kVecs> group;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) group.y[r][v] = zero();
    const int32_t* digits = t.digits;
    const auto* part = reinterpret_cast<const PartOfRow<kPlanes>*>(t.parts);
    for (int64_t b = 0; b < g.blocks; ++b) {
      const std::byte* block = t.panel + b * g.block_bytes();
      const float* scales = reinterpret_cast<const float*>(block) + first * kLanes;
      const uint8_t* zeros =
          g.zero == ir::DataType::kUndefined
              ? nullptr
              : reinterpret_cast<const uint8_t*>(block + kPanelColumns * sizeof(float)) +
                    first * kLanes;
      const std::byte* at = block + g.header_bytes() + first * kBytesPerVec;
      for (int64_t d = 0; d < g.block_dwords; d += kPartDwords, part += kRows) {
        group.begin();
        for (int64_t k = smaller(kPartDwords, g.block_dwords - d); k > 0; k -= kSparseDwords) {
          group.add_group(at, digits);
          at += kSparseRows * kRowBytes;
          digits += 2 * kSparseDwords * kRows * kPlanes;
        }
        group.end(part, scales, zeros, g.centre);
      }
    }
    for (int r = 0; r < t.rows; ++r)
      for (int v = 0; v < kVecs; ++v) {
        const int64_t column = (first + v) * kLanes, left = t.columns - column;
        float* y = t.y + r * t.y_stride + column;
        if (left >= kLanes)
          store(y, group.y[r][v]);
        else if (left > 0)
          store_first(y, group.y[r][v], static_cast<int>(left));
      }
  }
}

template <class Bits, int kPlanes>
BitTileKernel tile_of_rows(int rows) {
  constexpr auto kVecs = [](int tall) { return vecs_of_tile(2 * kPlanes, tall); };
  return rows == 1   ? run_sparse_tile<Bits, kPlanes, 1, kVecs(1)>
         : rows == 2 ? run_sparse_tile<Bits, kPlanes, 2, kVecs(2)>
                     : run_sparse_tile<Bits, kPlanes, 4, kVecs(4)>;
}

template <class Bits>
BitTileKernel tile_of_planes(int planes, int rows) {
  return planes == 1 ? tile_of_rows<Bits, 1>(rows) : tile_of_rows<Bits, 3>(rows);
}

}  // namespace

BitTileKernel sparse_bit_tile_kernel(int planes, int rows) {
#if defined(CAMSHAFT_HAS_VNNI)
  if (uses(Feature::kVnni)) return tile_of_planes<VnniBits<kBits>>(planes, rows);
#endif
  return tile_of_planes<PairBits<kBits>>(planes, rows);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
