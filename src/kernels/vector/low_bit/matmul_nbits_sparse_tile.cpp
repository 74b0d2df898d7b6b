// SPDX-License-Identifier: Apache-2.0
// The tiles of matmul_nbits over codes that are 2:4: each column picks, of eight neighbouring bytes
// of a row, the four its codes are for. Read from memory it is 0.75 of the bytes of dense codes,
// and the scales.
//
// Dense tiles subtract zero points from sums, which here would be of other bytes in every column.
// Codes less their zero point are signed bytes instead, and rows unsigned ones, 128 too much: so
// much of the codes' sum is subtracted, once for all rows.
#include "kernels/simd/picks.h"
#include "kernels/vector/low_bit/matmul_nbits_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

constexpr int kBits = 4;
constexpr int32_t kTooMuch = static_cast<int32_t>(0x80808080);  // 128 in each byte

#if defined(CAMSHAFT_HAS_VNNI)

using Bytes = Dwords;
CAMSHAFT_INLINE Bytes all_bytes(int32_t dword) {
  return broadcast(dword);
}
// Eight neighbours of a row, over and over, from two of its dwords; 128 too much.
CAMSHAFT_INLINE Bytes eight_of(const int32_t* low, const int32_t* high) {
  return flip_signs(alternate(broadcast(*low), broadcast(*high)));
}
CAMSHAFT_INLINE Bytes zeros_of(I32 zeros) {
  return (zeros * iset1(0x01010101)).v;
}
CAMSHAFT_INLINE Bytes codes_less(const std::byte* at, int shift, Bytes zeros) {
  return subtract_bytes(keep_low_bits(load_dwords(at), shift, kBits), zeros);
}

struct VnniPicks {
  static constexpr int64_t kPart = kMostPart;
  using Sum = Dwords;
  static CAMSHAFT_INLINE_MEMBER Sum start() { return broadcast(0); }
  static CAMSHAFT_INLINE_MEMBER void add(Bytes row, Bytes codes, Sum& sum) {
    add_vnni(row, codes, sum);
  }
  static CAMSHAFT_INLINE_MEMBER I32 total(Sum sum) { return {sum}; }
};

// Sums of pairs in 16 bits: eight products of 255 · 15 fit, so a part has 32 codes, 16 of them
// kept.
struct PairPicks {
  static constexpr int64_t kPart = 32;
  using Sum = Dwords;
  static CAMSHAFT_INLINE_MEMBER Sum start() { return broadcast(0); }
  static CAMSHAFT_INLINE_MEMBER void add(Bytes row, Bytes codes, Sum& sum) {
    sum = add_words(sum, multiply_bytes(row, codes));
  }
  static CAMSHAFT_INLINE_MEMBER I32 total(Sum sum) {
    return {multiply_words(sum, broadcast_words(1))};
  }
};

#else

using Bytes = PackedLanes;
CAMSHAFT_INLINE Bytes all_bytes(int32_t dword) {
  return broadcast_lane(reinterpret_cast<const std::byte*>(&dword));
}
CAMSHAFT_INLINE Bytes eight_of(const int32_t* low, const int32_t* high) {
  Bytes eight;
  for (int lane = 0; lane < kLanes; ++lane)
    __builtin_memcpy(eight.byte + 4 * lane, lane % 2 == 0 ? low : high, 4);
  for (uint8_t& byte : eight.byte) byte ^= 0x80;
  return eight;
}
CAMSHAFT_INLINE Bytes zeros_of(I32 zeros) {
  return packed_lanes((zeros * iset1(0x01010101)).v);
}
CAMSHAFT_INLINE Bytes codes_less(const std::byte* at, int shift, const Bytes& zeros) {
  Bytes codes = load_lanes(at);
  for (int k = 0; k < 4 * kLanes; ++k)
    codes.byte[k] = static_cast<uint8_t>((codes.byte[k] >> shift & 15) - zeros.byte[k]);
  return codes;
}

struct PairPicks {
  static constexpr int64_t kPart = kMostPart;
  using Sum = I32;
  static Sum start() { return iset1(0); }
  static void add(const Bytes& row, const Bytes& codes, Sum& sum) {
    LaneProduct().add_product(row, codes, sum);
  }
  static I32 total(Sum sum) { return sum; }
};

#endif

constexpr int64_t kRowBytes = kPanelVecs * kBytesPerVec;  // of a panel

template <class Bits, int kPlanes, int kRows, int kVecs>
struct SparseTileGroup {
  using Sum = typename Bits::Sum;
  Sum sums[kRows][kPlanes][kVecs], too_much[kVecs];
  F32 y[kRows][kVecs];

  CAMSHAFT_INLINE_MEMBER void begin() {
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      too_much[v] = Bits::start();
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
        for (int p = 0; p < kPlanes; ++p) sums[r][p][v] = Bits::start();
    }
  }

  // Eight neighbours of every column; `at`: the rows of a group.
  template <int kEight>
  CAMSHAFT_INLINE_MEMBER void add_eight(const std::byte* at, const int32_t* digits,
                                        const Bytes (&zeros)[kVecs]) {
    Bytes codes[kVecs];
    PackedLanes positions[kVecs];
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      codes[v] = codes_less(at + (1 + kEight / 2) * kRowBytes + v * kBytesPerVec,
                            kEight % 2 * kBits, zeros[v]);
      positions[v] = unpack_positions<kEight>(load_lanes(at + v * kBytesPerVec));
      Bits::add(all_bytes(kTooMuch), codes[v], too_much[v]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int p = 0; p < kPlanes; ++p) {
        const int32_t* low = digits + (2 * kEight * kRows + r) * kPlanes + p;
        const Bytes eight = eight_of(low, low + kRows * kPlanes);
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v)
          Bits::add(pick(eight, positions[v]), codes[v], sums[r][p][v]);
      }
  }

  CAMSHAFT_INLINE_MEMBER void add_group(const std::byte* at, const int32_t* digits,
                                        const Bytes (&zeros)[kVecs]) {
    constexpr int64_t kWidth = kVecs * kBytesPerVec;
    if constexpr (kRows == 1)
#pragma GCC unroll 16
      for (int64_t line = 0; line < kSparseRows * kWidth; line += 64)
        fetch_ahead(at + line / kWidth * kRowBytes + line % kWidth);
    add_eight<0>(at, digits, zeros);
    add_eight<1>(at, digits, zeros);
    add_eight<2>(at, digits, zeros);
    add_eight<3>(at, digits, zeros);
  }

  CAMSHAFT_INLINE_MEMBER F32 value(int r, int v) const {
    const I32 less = Bits::total(too_much[v]);
    F32 value = to_float(Bits::total(sums[r][0][v]) - less);
#pragma GCC unroll 4
    for (int p = 1; p < kPlanes; ++p)
      value = fma(value, set1(256), to_float(Bits::total(sums[r][p][v]) - less));
    return value;
  }

  // What the sums of a part add to y.
  CAMSHAFT_INLINE_MEMBER void end(const PartOfRow<kPlanes>* part, const float* scales) {
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      const F32 scale = load(scales + v * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
        y[r][v] = fma(value(r, v) * set1(part[r].unit), scale, y[r][v]);
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
      Bytes zero_bytes[kVecs];
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v)
        zero_bytes[v] = zeros_of(zeros ? load_bytes(zeros + v * kLanes) : iset1(g.centre));
      const std::byte* at = block + g.header_bytes() + first * kBytesPerVec;
      for (int64_t d = 0; d < g.block_dwords; d += kPartDwords, part += kRows) {
        group.begin();
        for (int64_t k = smaller(kPartDwords, g.block_dwords - d); k > 0; k -= kSparseDwords) {
          group.add_group(at, digits, zero_bytes);
          at += kSparseRows * kRowBytes;
          digits += 2 * kSparseDwords * kRows * kPlanes;
        }
        group.end(part, scales);
      }
    }
    store_columns(t, first, group.y);
  }
}

template <class Bits, int kPlanes>
BitTileKernel tile_of_rows(int rows) {
  constexpr auto kVecs = [](int tall) { return vecs_of_tile(kPlanes, tall); };
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
  if (uses(Feature::kVnni)) return tile_of_planes<VnniPicks>(planes, rows);
#endif
  return tile_of_planes<PairPicks>(planes, rows);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
