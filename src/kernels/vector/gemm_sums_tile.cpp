// SPDX-License-Identifier: Apache-2.0
// What follows the sums of a byte tile, for sums that another kernel has left in memory.
#include "kernels/vector/gemm_byte_tile.h"
#include "kernels/vector/gemm_int16_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

template <int kRows, int kVecs>
struct SumsTile {
  static void run(const Tile& t) {
    Accumulators<I32, kRows, kVecs> acc;
    start_bytes(t, acc);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVecs; ++v)
        acc.v[r][v] = acc.v[r][v] +
                      iload(reinterpret_cast<const int32_t*>(t.a + r * t.a_stride) + v * kLanes);
    finish_bytes(t, acc);
  }
};

constexpr KernelTable<SumsTile, kMaxInt16Rows> kTable;

}  // namespace

TileKernel sums_kernel(int vecs, int rows) {
  return kTable.at(vecs, rows);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
