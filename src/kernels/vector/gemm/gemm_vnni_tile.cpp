// SPDX-License-Identifier: Apache-2.0
// The tile of bytes with VNNI. 14x2: per step 28 vpdpbusd, 14 broadcast loads and 2 loads of B, as
// the tile of floats; 1792 MAC in 14 cycles.
#include "kernels/vector/gemm/gemm_byte_kernels.h"

#if defined(CAMSHAFT_HAS_VNNI)

#include "kernels/vector/gemm/gemm_byte_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

template <int kRows, int kVecs>
struct VnniTile {
  static void run(const Tile& t) { run_byte_tile<VnniProduct, kRows, kVecs>(t); }
};

constexpr KernelTable<VnniTile, kMaxByteRows> kTable;

}  // namespace

TileKernel vnni_tile_kernel(int vecs, int rows) {
  return kTable.at(vecs, rows);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET

#endif
