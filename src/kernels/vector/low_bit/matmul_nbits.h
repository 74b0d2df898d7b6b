// SPDX-License-Identifier: Apache-2.0
// Products with weights of 2, 4 or 8 bits that stay packed (LowBitMultiply).
//
// A panel is kPanelVecs vectors of columns. It holds, block after block of the depth, a scale per
// column, perhaps a zero point per column, then the codes: a dword of a column holds neighbouring
// codes, of which those with the same shift are four neighbours in the four bytes.
//
// Rows become integers: kPlanes bytes for every element, scaled per part of a block (at most
// kMostPart codes). One plane is int8 with a step of max / 127. Three are a fixed-point number of
// 23 bits and a sign whose unit is a power of two, at most 2^-22 of the part's largest element:
// what floats of that size keep themselves. Products of codes and bytes are exact in integers.
#pragma once

#include "ir/weight_records.h"
#include "kernels/simd/simd.h"
#include "kernels/vector/counts.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

inline constexpr int kPanelVecs = 4;
inline constexpr int kPanelColumns = kPanelVecs * kLanes;
inline constexpr int kMostPart = 128;  // codes that share the unit of a row
inline constexpr int kMaxBitRows = 4;  // of a tile
inline constexpr int kMaxPlanes = 3;

// Weights that are 2:4, of 4 bits: for 32 codes of a column a dword of positions, two bits for each
// of the 16 that are kept, and two dwords of those: of eight neighbours, bytes 0 and 2 are from the
// first four, 1 and 3 from the others, and a byte holds those of eight neighbours and of the next.
inline constexpr int64_t kSparseCodes = 32, kSparseDwords = 4, kSparseRows = 3;

struct BitGeometry {
  int64_t columns, depth, block, blocks;
  int bits, centre;
  int64_t block_dwords;  // of one column
  ir::DataType zero;     // how zero points are stored; undefined: all are the centre
  bool sparse = false;   // 2:4, of 4 bits (below)

  explicit BitGeometry(const ir::LowBits& weights)
      : columns(weights.columns),
        depth(weights.depth),
        block(smaller(weights.block, weights.depth)),
        blocks(ceil_div(depth, block)),
        bits(static_cast<int>(weights.bits)),
        centre(1 << (bits - 1)),
        block_dwords(ceil_div(block, codes_per_dword())),
        zero(weights.zero) {}

  int64_t codes_per_dword() const { return 32 / bits; }
  int64_t shifts() const { return 8 / bits; }
  int64_t zero_bytes() const {
    return zero == ir::DataType::kUndefined ? 0
           : zero == ir::DataType::kUInt8   ? kPanelColumns
                                            : kPanelColumns * int64_t{sizeof(float)};
  }
  int64_t header_bytes() const { return kPanelColumns * int64_t{sizeof(float)} + zero_bytes(); }
  int64_t code_rows() const {  // of kPanelColumns dwords, in a block
    return sparse ? block_dwords / kSparseDwords * kSparseRows : block_dwords;
  }
  int64_t block_bytes() const { return header_bytes() + code_rows() * kPanelColumns * 4; }
  int64_t panels() const { return ceil_div(columns, kPanelColumns); }
  int64_t panel_bytes() const { return blocks * block_bytes(); }
  int64_t row_dwords() const { return blocks * block_dwords * shifts(); }  // of one plane
  int64_t parts(int64_t part_dwords) const { return blocks * ceil_div(block_dwords, part_dwords); }
};

// What a tile knows of a part of a row.
template <int kPlanes>
struct PartOfRow {
  float unit;              // of the last plane
  float sum;               // of the elements, as the planes have them
  int32_t start[kPlanes];  // - centre * sum of the plane
};

// `rows` ≤ kRows rows against a panel; `digits` and `parts` hold kRows of them, interleaved.
struct BitTile {
  const std::byte* panel;
  const int32_t* digits;
  const std::byte* parts;
  const BitGeometry* geometry;
  float* y;
  int64_t y_stride;
  int rows;
  int64_t columns;
};
using BitTileKernel = void (*)(const BitTile&);

// The kernel for kRows = tile_rows(rows) interleaved rows.
inline int tile_rows(int64_t rows) {
  return rows >= 3 ? 4 : static_cast<int>(rows);
}
BitTileKernel bit_tile_kernel(int bits, int planes, int rows);
BitTileKernel sparse_bit_tile_kernel(int planes, int rows);
// Dwords of a column that share the unit of a row.
int64_t part_dwords(int bits);

// Row `r` of `rows` interleaved ones.
void make_digits(const float* a, const BitGeometry& geometry, int planes, int rows, int r,
                 int32_t* digits, std::byte* parts);
int64_t part_bytes(int planes);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
