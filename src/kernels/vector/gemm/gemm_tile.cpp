// SPDX-License-Identifier: Apache-2.0
// Registers of the 14x2 tile (AVX-512): 28 accumulators, 2 vectors of B, 2 broadcasts. Per k: 28
// FMA, 14 broadcast loads and 2 loads of B: 14 cycles of FMA against 8 of loads.
#include "kernels/vector/gemm/gemm_tile.h"

#include "kernels/vector/gemm/gemm_float_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

template <int kRows, int kVecs>
struct FloatTile {
  static void run(const Tile& t) {
    run_float_tiles<kRows, kVecs, true>(
        t, [&t](const std::byte* a, Accumulators<F32, kRows, kVecs>& acc)
               __attribute__((always_inline)) { multiply<FloatProduct>(t, a, acc); });
  }
};

constexpr KernelTable<FloatTile, kMaxRows> kTable;

}  // namespace

TileKernel tile_kernel(int vecs, int rows) {
  return kTable.at(vecs, rows);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
