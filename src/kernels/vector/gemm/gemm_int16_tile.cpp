// SPDX-License-Identifier: Apache-2.0
// The register tile of int16 pairs. AVX2, 6x2: per step 12 vpmaddwd, 12 vpaddd, 6 broadcast loads
// and 2 loads of B; 192 MAC in 6 cycles. With VNNI one vpdpwssd does both.
#include "kernels/vector/gemm/gemm_int16_tile.h"

#include "kernels/simd/products.h"
#include "kernels/vector/gemm/gemm_byte_kernels.h"
#include "kernels/vector/gemm/gemm_multiply.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

template <class M, int kRows, int kVecs>
CAMSHAFT_INLINE void run_pair_product(const Tile& t) {
  Accumulators<I32, kRows, kVecs> acc;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVecs; ++v) acc.v[r][v] = iset1(0);
  multiply<M>(t, acc);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVecs; ++v)
      istore(reinterpret_cast<int32_t*>(t.c.first + r * t.c.stride) + v * kLanes, acc.v[r][v]);
}

template <int kRows, int kVecs>
struct PairTile {
  static void run(const Tile& t) { run_pair_product<StreamedPairProduct, kRows, kVecs>(t); }
};
constexpr KernelTable<PairTile, kMaxInt16Rows> kTable;

#if defined(CAMSHAFT_HAS_VNNI)
template <int kRows, int kVecs>
struct VnniPairTile {
  static void run(const Tile& t) { run_pair_product<VnniPairProduct, kRows, kVecs>(t); }
};
constexpr KernelTable<VnniPairTile, kMaxInt16Rows> kVnniTable;
#endif

}  // namespace

TileKernel int16_tile_kernel(int vecs, int rows) {
#if defined(CAMSHAFT_HAS_VNNI)
  if (uses(Feature::kVnni)) return kVnniTable.at(vecs, rows);
#endif
  return kTable.at(vecs, rows);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
