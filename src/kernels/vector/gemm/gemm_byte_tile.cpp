// SPDX-License-Identifier: Apache-2.0
// The exact tile of bytes for every machine: 16-bit products.
#include "kernels/vector/gemm/gemm_byte_tile.h"

#include "kernels/vector/gemm/gemm_byte_kernels.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

template <int kRows, int kVecs>
struct WordTile {
  static void run(const Tile& t) { run_byte_tile<WordProduct, kRows, kVecs>(t); }
};

constexpr KernelTable<WordTile, kMaxByteRows> kTable;

}  // namespace

TileKernel word_tile_kernel(int vecs, int rows) {
  return kTable.at(vecs, rows);
}

TileKernel byte_tile_kernel(int vecs, int rows) {
#if defined(CAMSHAFT_HAS_VNNI)
  if (uses(Feature::kVnni)) return vnni_tile_kernel(vecs, rows);
#endif
  return word_tile_kernel(vecs, rows);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
