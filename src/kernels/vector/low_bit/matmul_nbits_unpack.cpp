// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/low_bit/matmul_nbits_unpack.h"

#include "kernels/simd/bytes.h"
#include "kernels/simd/dwords.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

using ir::DataType;

// Codes [first, first + count) of a block, for kUnpackedVecs vectors of columns, as rows of
// kUnpackedWidth floats.
template <int kBits>
void unpack_codes(const BitGeometry& g, const std::byte* block, int64_t vec, int64_t first,
                  int64_t count, float* to) {
  constexpr int64_t kCodes = 32 / kBits;
  const std::byte* zeros = block + kPanelColumns * int64_t{sizeof(float)};
  for (int v = 0; v < kUnpackedVecs; ++v, ++vec) {
    const int64_t column = vec * kLanes;
    const F32 scale = load(reinterpret_cast<const float*>(block) + column);
    const F32 zero = g.zero == DataType::kFloat
                         ? load(reinterpret_cast<const float*>(zeros) + column)
                     : g.zero == DataType::kUInt8
                         ? to_float(load_bytes(reinterpret_cast<const uint8_t*>(zeros) + column))
                         : set1(static_cast<float>(g.centre));
    const std::byte* codes = block + g.header_bytes() + column * 4;
    for (int64_t k = first; k < first + count; k += kCodes) {
      const std::byte* dwords = codes + k / kCodes * kPanelColumns * 4;
      for (int64_t in = 0; in < smaller(kCodes, first + count - k); ++in) {
        const int shift = static_cast<int>(in % 4 * 8 + in / 4 * kBits);
        store(to + (k - first + in) * kUnpackedWidth + v * kLanes,
              (codes_as_floats<kBits>(dwords, shift) - zero) * scale);
      }
    }
  }
}

}  // namespace

void unpack_block(const BitGeometry& g, const std::byte* block, int64_t vec, int64_t first,
                  int64_t count, float* to) {
  if (g.bits == 2) return unpack_codes<2>(g, block, vec, first, count, to);
  if (g.bits == 4) return unpack_codes<4>(g, block, vec, first, count, to);
  unpack_codes<8>(g, block, vec, first, count, to);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
