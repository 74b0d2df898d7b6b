// SPDX-License-Identifier: Apache-2.0
// The tile of bytes that were widened to 16 bits before: a lane of A is two neighbouring steps, of
// B two weights, one vpmaddwd and one addition a product. 6x2: per pair of steps 24 operations and
// 8 loads for 192 MAC, of any weights and codes. On machines without VNNI, where short panels have
// no chains to speak of (gemm_chains.h) or codes are up to 255.
#include "kernels/vector/gemm/gemm_byte_kernels.h"

#if defined(CAMSHAFT_HAS_BYTE_PAIRS)

#include "kernels/simd/products.h"
#include "kernels/vector/gemm/gemm_byte_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

template <int kRows, int kVecs>
struct WidenedTile {
  static void run(const Tile& t) { run_byte_tile<PairProduct, kRows, kVecs>(t); }
};

constexpr KernelTable<WidenedTile, kMaxWordRows> kTable;

}  // namespace

TileKernel widened_tile_kernel(int vecs, int rows) {
  return kTable.at(vecs, rows);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET

#endif
