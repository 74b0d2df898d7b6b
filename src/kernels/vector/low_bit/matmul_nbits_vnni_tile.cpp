// SPDX-License-Identifier: Apache-2.0
// The tiles of matmul_nbits with VNNI. One row of three planes: 64 bytes of codes are 128 weights,
// and take 3 instructions to unpack and 6 vpdpbusd.
#include "kernels/vector/low_bit/matmul_nbits_tile.h"

#if defined(CAMSHAFT_HAS_VNNI)

namespace camshaft::kernels::CAMSHAFT_TARGET {

BitTileKernel vnni_bit_tile(int bits, int planes, int rows) {
  return find_tile<VnniBits>(bits, planes, rows);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET

#endif
