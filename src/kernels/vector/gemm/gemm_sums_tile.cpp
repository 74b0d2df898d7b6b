// SPDX-License-Identifier: Apache-2.0
// What follows the sums of a byte tile, for sums that another kernel has left in memory.
#include "kernels/vector/gemm/gemm_byte_tile.h"
#include "kernels/vector/gemm/gemm_int16_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

template <int kRows, int kVecs>
struct SumsTile {
  static void run(const Tile& t) {
    const auto add = [&t](const TilePart& part, Accumulators<I32, kRows, kVecs>& acc)
        __attribute__((always_inline)) {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const int32_t* sums = reinterpret_cast<const int32_t*>(part.a + r * t.a.stride);
#pragma GCC unroll 2
        for (int v = 0; v < kVecs; ++v) acc.v[r][v] = acc.v[r][v] + iload(sums + v * kLanes);
      }
    };
    run_byte_tiles<kRows, kVecs>(t, add);
  }
};

constexpr KernelTable<SumsTile, kMaxInt16Rows> kTable;

}  // namespace

TileKernel sums_kernel(int vecs, int rows) {
  return kTable.at(vecs, rows);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
