// SPDX-License-Identifier: Apache-2.0
// Weights of few bits as floats in L1 or L2: a part of the depth of some vectors of columns at a
// time, over which all tiles of rows pass.
#pragma once

#include "kernels/vector/low_bit/matmul_nbits.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

inline constexpr int kUnpackedVecs = 2;  // of columns; divides kPanelVecs
inline constexpr int64_t kUnpackedWidth = kUnpackedVecs * kLanes;
inline constexpr int64_t kLeastUnpackedRows = 8;  // fewer are made integers
// That wide, 32 KiB of L1 with AVX-512. With AVX2 64 KiB of L2: a tile that begins and ends a part
// of 256 steps takes a fifth longer than one of 1,024 (512x2048x2048 on Zen 3 60.7 ms, so 53.3).
inline constexpr int64_t kUnpackedDepth = kLanes < 16 ? 1024 : 256;

// Codes [first, first + count) of a block, for kUnpackedVecs vectors of columns, as rows of
// kUnpackedWidth floats.
void unpack_block(const BitGeometry& g, const std::byte* block, int64_t vec, int64_t first,
                  int64_t count, float* to);

// The whole depth of the vectors [vec, vec + vecs) of all columns, as a panel of the register tile.
void unpack_panel(const BitGeometry& g, const std::byte* packed, int64_t vec, int vecs, float* to);

// The depth [k, k + depth) of a panel's tiles, the first of which starts sums and the last ends.
struct UnpackedPart {
  int64_t k = 0, depth = 0;
  bool is_last = false;
};

// body(part) for one part after the other of panel `panel`, which is kUnpackedWidth wide, when
// `weights` holds it. Blocks that end within a part together; of longer ones, a part at a time.
template <class Body>
void for_unpacked_parts(const BitGeometry& g, const std::byte* packed, int64_t panel,
                        float* weights, const Body& body) {
  const int64_t vec = panel * kUnpackedVecs % kPanelVecs;
  const std::byte* block = packed + panel * kUnpackedVecs / kPanelVecs * g.panel_bytes();
  UnpackedPart part;
  for (int64_t b = 0; b < g.blocks; ++b, block += g.block_bytes()) {
    const int64_t codes = smaller(g.block, g.depth - b * g.block);
    for (int64_t k = 0; k < codes;) {
      const int64_t count = smaller(codes - k, kUnpackedDepth - part.depth);
      // A part begins where a dword of codes does.
      const int64_t taken =
          k + count < codes ? count / g.codes_per_dword() * g.codes_per_dword() : count;
      if (taken > 0) unpack_block(g, block, vec, k, taken, weights + part.depth * kUnpackedWidth);
      k += taken;
      part.depth += taken;
      part.is_last = part.k + part.depth == g.depth;
      const bool is_full = taken == 0 || part.depth == kUnpackedDepth;
      if (!is_full && !part.is_last) continue;
      body(static_cast<const UnpackedPart&>(part));
      part = {part.k + part.depth, 0, false};
    }
  }
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
