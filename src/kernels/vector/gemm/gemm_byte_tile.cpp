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

#if !defined(CAMSHAFT_TARGET_scalar)
static bool use_vnni = has_vnni_product();

void force_word_products(bool force) {
  use_vnni = !force && has_vnni_product();
}

bool uses_vnni() {
  return use_vnni;
}

TileKernel byte_tile_kernel(int vecs, int rows) {
  return use_vnni ? vnni_tile_kernel(vecs, rows) : word_tile_kernel(vecs, rows);
}
#else
TileKernel byte_tile_kernel(int vecs, int rows) {
  return word_tile_kernel(vecs, rows);
}
#endif

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
