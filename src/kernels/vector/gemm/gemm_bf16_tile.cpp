// SPDX-License-Identifier: Apache-2.0
// The tile of bfloat16 pairs by float arithmetic, for machines without vdpbf16ps: pairs are
// widened in registers, two FMA per pair.
#include "kernels/vector/gemm/gemm_bf16_tile.h"
#include "kernels/simd/products.h"

#include "kernels/vector/gemm/gemm_bf16.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

struct WidenedProduct {
  using Sum = F32;
  struct Row {
    F32 even, odd;
  };
  using Column = Row;
  static constexpr bool kFetchesAhead = true;

  static CAMSHAFT_INLINE_MEMBER Row widened(I32 pairs) {
    return {bits_as_float(shift_left<16>(pairs)),
            bits_as_float(shift_left<16>(shift_right_arithmetic<16>(pairs)))};
  }
  CAMSHAFT_INLINE_MEMBER Column column(const std::byte* b) const {
    return widened(iload(reinterpret_cast<const int32_t*>(b)));
  }
  CAMSHAFT_INLINE_MEMBER Row row(const std::byte* a) const {
    int32_t pair;
    __builtin_memcpy(&pair, a, sizeof pair);
    return widened(iset1(pair));
  }
  CAMSHAFT_INLINE_MEMBER void add_product(const Row& row, const Column& column, F32& sum) const {
    sum = fma(row.odd, column.odd, fma(row.even, column.even, sum));
  }
  template <class T>
  static CAMSHAFT_INLINE_MEMBER void put(T* c, F32 v) {
    store_floats(c, v);
  }
  template <class T>
  static CAMSHAFT_INLINE_MEMBER void put(T* c, F32 v, int64_t count) {
    store_floats(c, v, count);
  }
};

template <int kRows, int kVecs>
struct WidenedTile {
  static void run(const Tile& t) { run_pair_tile<WidenedProduct, kRows, kVecs>(t); }
};

constexpr KernelTable<WidenedTile, kMaxByteRows> kTable;

}  // namespace

TileKernel pair_tile_kernel(int vecs, int rows) {
#if defined(CAMSHAFT_HAS_BF16)
  if (uses(Feature::kBf16)) return dpbf16_tile_kernel(vecs, rows);
#endif
  return kTable.at(vecs, rows);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
