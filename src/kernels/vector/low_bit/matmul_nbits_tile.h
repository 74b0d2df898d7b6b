// SPDX-License-Identifier: Apache-2.0
// The tile of matmul_nbits over an arithmetic of unsigned codes times signed bytes.
#pragma once

#include "kernels/simd/bytes.h"
#include "kernels/simd/dwords.h"
#include "kernels/vector/low_bit/matmul_nbits.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// --- arithmetics: Codes of one shift, a Row (four bytes of one row, broadcast), a Sum.

#if defined(CAMSHAFT_HAS_VNNI)

CAMSHAFT_INLINE Dwords broadcast_dword(const int32_t* p) {
  return broadcast(*p);
}
template <int kBits>
CAMSHAFT_INLINE Dwords codes_at(Dwords dwords, int shift) {
  if constexpr (kBits == 8) return dwords;
  return keep_low_bits(dwords, shift, kBits);
}

template <int kBits>
struct VnniBits {
  static constexpr int64_t kPart = kMostPart;
  using Codes = Dwords;
  struct Sum {
    Dwords v;
  };
  static CAMSHAFT_INLINE_MEMBER Codes codes(Dwords dwords, int shift) {
    return codes_at<kBits>(dwords, shift);
  }
  static CAMSHAFT_INLINE_MEMBER Sum start(int32_t x) { return {broadcast(x)}; }
  static CAMSHAFT_INLINE_MEMBER void add(Codes codes, Dwords row, Sum& sum) {
    add_vnni(codes, row, sum.v);
  }
  static CAMSHAFT_INLINE_MEMBER I32 total(Sum sum, int32_t) { return {sum.v}; }
};

// Sums of pairs in 16 bits: 16 products of 15 · 128 fit, so a part has 32 codes. Of 8 bits, both
// halves of a code are summed apart.
template <int kBits>
struct PairBits {
  static constexpr int64_t kPart = 32;
  static constexpr int kHalves = kBits == 8 ? 2 : 1;
  struct Codes {
    Dwords v[kHalves];
  };
  using Sum = Codes;
  static CAMSHAFT_INLINE_MEMBER Codes codes(Dwords dwords, int shift) {
    if constexpr (kBits == 8)
      return {{codes_at<4>(dwords, 0), codes_at<4>(dwords, 4)}};
    else
      return {{codes_at<kBits>(dwords, shift)}};
  }
  static CAMSHAFT_INLINE_MEMBER Sum start(int32_t) {
    Sum sum;
    for (int h = 0; h < kHalves; ++h) sum.v[h] = broadcast(0);
    return sum;
  }
  static CAMSHAFT_INLINE_MEMBER void add(const Codes& codes, Dwords row, Sum& sum) {
    for (int h = 0; h < kHalves; ++h)
      sum.v[h] = add_words(sum.v[h], multiply_bytes(codes.v[h], row));
  }
  static CAMSHAFT_INLINE_MEMBER I32 total(const Sum& sum, int32_t start) {
    Dwords t = multiply_words(sum.v[0], broadcast_words(1));
    if constexpr (kBits == 8) t = add_dwords(t, multiply_words(sum.v[1], broadcast_words(16)));
    return {add_dwords(t, broadcast(start))};
  }
};

#else

CAMSHAFT_INLINE I32 load_dwords(const std::byte* p) {
  I32 dwords;
  __builtin_memcpy(&dwords.v, p, sizeof dwords.v);
  return dwords;
}
CAMSHAFT_INLINE I32 broadcast_dword(const int32_t* p) {
  return iset1(*p);
}

template <int kBits>
struct PairBits {
  static constexpr int64_t kPart = kMostPart;
  struct Codes {
    I32 byte[4];
  };
  using Sum = I32;
  static CAMSHAFT_INLINE_MEMBER Codes codes(I32 dwords, int shift) {
    Codes codes;
    for (int j = 0; j < 4; ++j)
      codes.byte[j].v = (dwords.v >> (8 * j + shift)) & ((1 << kBits) - 1);
    return codes;
  }
  static CAMSHAFT_INLINE_MEMBER Sum start(int32_t x) { return iset1(x); }
  static CAMSHAFT_INLINE_MEMBER void add(const Codes& codes, I32 row, Sum& sum) {
    sum = sum + codes.byte[0] * shift_right_arithmetic<24>(shift_left<24>(row)) +
          codes.byte[1] * shift_right_arithmetic<24>(shift_left<16>(row)) +
          codes.byte[2] * shift_right_arithmetic<24>(shift_left<8>(row)) +
          codes.byte[3] * shift_right_arithmetic<24>(row);
  }
  static CAMSHAFT_INLINE_MEMBER I32 total(Sum sum, int32_t) { return sum; }
};

#endif

// --- the tile

constexpr int kBytesPerVec = kLanes * 4;

// Codes are read once, in order: a fetch this far ahead hides what the prefetcher of the processor
// leaves at the ends of pages.
inline constexpr uintptr_t kBitsAhead = 2048;
CAMSHAFT_INLINE void fetch_ahead(const std::byte* p) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(p) + kBitsAhead));
}

// The zero points of a vector of columns, less the centre.
CAMSHAFT_INLINE F32 offsets_at(const std::byte* zeros, const BitGeometry& g, int column) {
  const F32 zero = g.zero == ir::DataType::kUInt8
                       ? to_float(load_bytes(reinterpret_cast<const uint8_t*>(zeros) + column))
                       : load(reinterpret_cast<const float*>(zeros) + column);
  return zero - set1(static_cast<float>(g.centre));
}

template <class Bits, int kBits, int kPlanes, int kRows, int kVecs>
struct BitTileGroup {
  using Sum = typename Bits::Sum;
  static constexpr int kShifts = 8 / kBits;
  Sum sums[kRows][kPlanes][kVecs];
  F32 y[kRows][kVecs];

  CAMSHAFT_INLINE_MEMBER void begin(const PartOfRow<kPlanes>* part) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int p = 0; p < kPlanes; ++p)
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v) sums[r][p][v] = Bits::start(part[r].start[p]);
  }

  // A dword of every column.
  CAMSHAFT_INLINE_MEMBER void step(const std::byte* at, const int32_t* digits) {
    decltype(load_dwords(at)) dwords[kVecs];
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      if (kRows == 1 && v * kBytesPerVec % 64 == 0) fetch_ahead(at + v * kBytesPerVec);
      dwords[v] = load_dwords(at + v * kBytesPerVec);
    }
#pragma GCC unroll 4
    for (int s = 0; s < kShifts; ++s) {
      typename Bits::Codes codes[kVecs];
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) codes[v] = Bits::codes(dwords[v], s * kBits);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
        for (int p = 0; p < kPlanes; ++p) {
          const auto row = broadcast_dword(digits + (s * kRows + r) * kPlanes + p);
#pragma GCC unroll 4
          for (int v = 0; v < kVecs; ++v) Bits::add(codes[v], row, sums[r][p][v]);
        }
    }
  }

  CAMSHAFT_INLINE_MEMBER F32 value(int r, int v, const PartOfRow<kPlanes>& part) const {
    F32 value = to_float(Bits::total(sums[r][0][v], part.start[0]));
#pragma GCC unroll 4
    for (int p = 1; p < kPlanes; ++p)
      value = fma(value, set1(256), to_float(Bits::total(sums[r][p][v], part.start[p])));
    return value;
  }

  // What the sums of a part add to y.
  CAMSHAFT_INLINE_MEMBER void end(const PartOfRow<kPlanes>* part, const float* scales,
                                  const std::byte* zeros, const BitGeometry& g, int column) {
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      const F32 scale = load(scales + column + v * kLanes);
      if (zeros) {
        const F32 offset = offsets_at(zeros, g, column + v * kLanes);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r)
          y[r][v] = fma(fnma(offset, set1(part[r].sum), value(r, v, part[r]) * set1(part[r].unit)),
                        scale, y[r][v]);
      } else {
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r)
          y[r][v] = fma(value(r, v, part[r]) * set1(part[r].unit), scale, y[r][v]);
      }
    }
  }
};

// Vectors of columns from `first` on.
template <int kRows, int kVecs>
void store_columns(const BitTile& t, int first, const F32 (&sums)[kRows][kVecs]) {
  for (int r = 0; r < t.rows; ++r)
    for (int v = 0; v < kVecs; ++v) {
      const int64_t column = (first + v) * kLanes, left = t.columns - column;
      float* y = t.y + r * t.y_stride + column;
      if (left >= kLanes)
        store(y, sums[r][v]);
      else if (left > 0)
        store_first(y, sums[r][v], static_cast<int>(left));
    }
}

template <class Bits, int kBits, int kPlanes, int kRows, int kVecs>
void run_bit_tile(const BitTile& t) {
  constexpr int64_t kPartDwords = Bits::kPart * kBits / 32;
  const BitGeometry& g = *t.geometry;
  for (int first = 0; first < kPanelVecs; first += kVecs) {
    if (first * kLanes >= t.columns) return;
    BitTileGroup<Bits, kBits, kPlanes, kRows, kVecs> group;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) group.y[r][v] = zero();
    const std::byte* at = t.panel;
    const int32_t* digits = t.digits;
    const auto* part = reinterpret_cast<const PartOfRow<kPlanes>*>(t.parts);
    for (int64_t b = 0; b < g.blocks; ++b) {
      const auto* scales = reinterpret_cast<const float*>(at);
      const std::byte* zeros =
          g.zero == ir::DataType::kUndefined ? nullptr : at + kPanelColumns * sizeof(float);
      at += g.header_bytes() + first * kBytesPerVec;
      for (int64_t d = 0; d < g.block_dwords; d += kPartDwords, part += kRows) {
        group.begin(part);
        const int64_t dwords = smaller(kPartDwords, g.block_dwords - d);
        for (int64_t k = 0; k < dwords; ++k) {
          group.step(at, digits);
          at += kPanelVecs * kBytesPerVec;
          digits += kRows * kPlanes * (8 / kBits);
        }
        group.end(part, scales, zeros, g, first * kLanes);
      }
      at -= first * kBytesPerVec;
    }
    store_columns(t, first, group.y);
  }
}

// Vectors of columns that a tile of `rows` rows takes at once: what the registers hold.
constexpr int vecs_of_tile(int planes, int rows) {
  if (kRegisters == 32)
    return planes * rows <= 4 ? 4 : planes * rows <= 6 ? 2 : planes == 1 ? 2 : 1;
  return planes * rows <= 2 ? 4 : planes * rows <= 4 ? 2 : 1;
}

template <template <int> class Bits, int kBits, int kPlanes>
BitTileKernel tile_of(int rows) {
  constexpr auto kVecs = vecs_of_tile;
  return rows == 1   ? run_bit_tile<Bits<kBits>, kBits, kPlanes, 1, kVecs(kPlanes, 1)>
         : rows == 2 ? run_bit_tile<Bits<kBits>, kBits, kPlanes, 2, kVecs(kPlanes, 2)>
                     : run_bit_tile<Bits<kBits>, kBits, kPlanes, 4, kVecs(kPlanes, 4)>;
}

template <template <int> class Bits>
BitTileKernel find_tile(int bits, int planes, int rows) {
  const auto of = [&]<int kBits>() {
    return planes == 1 ? tile_of<Bits, kBits, 1>(rows) : tile_of<Bits, kBits, 3>(rows);
  };
  return bits == 2   ? of.template operator()<2>()
         : bits == 4 ? of.template operator()<4>()
                     : of.template operator()<8>();
}

BitTileKernel pair_bit_tile(int bits, int planes, int rows);
#if defined(CAMSHAFT_HAS_VNNI)
BitTileKernel vnni_bit_tile(int bits, int planes, int rows);
#endif

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
