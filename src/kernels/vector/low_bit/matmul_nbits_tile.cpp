// SPDX-License-Identifier: Apache-2.0
// The tiles of matmul_nbits for every machine: sums of pairs.
#include "kernels/vector/low_bit/matmul_nbits_tile.h"

#include "kernels/vector/gemm/gemm_byte_kernels.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

BitTileKernel pair_bit_tile(int bits, int planes, int rows) {
  return find_tile<PairBits>(bits, planes, rows);
}

BitTileKernel bit_tile_kernel(int bits, int planes, int rows) {
#if defined(CAMSHAFT_HAS_VNNI)
  if (uses(Feature::kVnni)) return vnni_bit_tile(bits, planes, rows);
#endif
  return pair_bit_tile(bits, planes, rows);
}

int64_t part_dwords(int bits) {
  return (uses(Feature::kVnni) ? kMostPart : PairBits<4>::kPart) * bits / 32;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
