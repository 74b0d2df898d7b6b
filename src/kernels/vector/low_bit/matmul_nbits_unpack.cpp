// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/low_bit/matmul_nbits_unpack.h"

#include "kernels/simd/bytes.h"
#include "kernels/simd/dwords.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

using ir::DataType;

constexpr int64_t kCodesTogether = 64;  // of a vector of columns, before the next one's

struct Columns {
  F32 scale, zero;
};

// The weight whose code is at place `in` of a dword.
template <int kBits>
CAMSHAFT_INLINE F32 weight_at(const std::byte* dwords, int in, const Columns& columns) {
  return (codes_as_floats<kBits>(dwords, in % 4 * 8 + in / 4 * kBits) - columns.zero) *
         columns.scale;
}

// Codes [first, first + count) of a block, for one vector of columns, as rows `width` floats apart.
template <int kBits>
void unpack_codes(const BitGeometry& g, const std::byte* block, int64_t vec, int64_t first,
                  int64_t count, int64_t width, float* to) {
  constexpr int kCodes = 32 / kBits;
  const int64_t column = vec * kLanes;
  const std::byte *zeros = block + kPanelColumns * int64_t{sizeof(float)},
                  *codes = block + g.header_bytes() + column * 4;
  const Columns columns{load(reinterpret_cast<const float*>(block) + column),
                        g.zero == DataType::kFloat
                            ? load(reinterpret_cast<const float*>(zeros) + column)
                        : g.zero == DataType::kUInt8
                            ? to_float(load_bytes(reinterpret_cast<const uint8_t*>(zeros) + column))
                            : set1(static_cast<float>(g.centre))};
  const std::byte* dwords = codes + first / kCodes * kPanelColumns * 4;
  int64_t left = count;
  for (; left >= kCodes; left -= kCodes, dwords += kPanelColumns * 4, to += kCodes * width) {
#pragma GCC unroll 16
    for (int in = 0; in < kCodes; ++in)
      store(to + in * width, weight_at<kBits>(dwords, in, columns));
  }
  for (int in = 0; in < left; ++in) store(to + in * width, weight_at<kBits>(dwords, in, columns));
}

void unpack_any(const BitGeometry& g, const std::byte* block, int64_t vec, int64_t first,
                int64_t count, int64_t width, float* to) {
  if (g.bits == 2) return unpack_codes<2>(g, block, vec, first, count, width, to);
  if (g.bits == 4) return unpack_codes<4>(g, block, vec, first, count, width, to);
  unpack_codes<8>(g, block, vec, first, count, width, to);
}

}  // namespace

void unpack_block(const BitGeometry& g, const std::byte* block, int64_t vec, int64_t first,
                  int64_t count, float* to) {
  for (int v = 0; v < kUnpackedVecs; ++v)
    unpack_any(g, block, vec + v, first, count, kUnpackedWidth, to + v * kLanes);
}

void unpack_panel(const BitGeometry& g, const std::byte* packed, int64_t vec, int vecs, float* to) {
  const int64_t width = vecs * kLanes;
  for (int64_t b = 0; b < g.blocks; ++b) {
    const int64_t codes = smaller(g.block, g.depth - b * g.block);
    for (int64_t k = 0; k < codes; k += kCodesTogether)
      for (int v = 0; v < vecs; ++v) {
        const std::byte* panel = packed + (vec + v) / kPanelVecs * g.panel_bytes();
        unpack_any(g, panel + b * g.block_bytes(), (vec + v) % kPanelVecs, k,
                   smaller(kCodesTogether, codes - k), width,
                   to + (b * g.block + k) * width + v * kLanes);
      }
  }
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
