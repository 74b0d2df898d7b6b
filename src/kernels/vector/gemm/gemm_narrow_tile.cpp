// SPDX-License-Identifier: Apache-2.0
// The register tile of floats over weights that are 16-bit floats: half the bytes from memory,
// which is what few rows wait for; the same sums to the last bit. Widening is an instruction or two
// for a vector of columns and all rows.
#include "kernels/simd/float16.h"
#include "kernels/simd/steps.h"
#include "kernels/vector/gemm/gemm_float_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

template <class T>
struct NarrowProduct {
  static constexpr bool kFetchesAhead = true;
  static constexpr int kStepsTogether = kFloatSteps;
  static constexpr int64_t kColumnBytes = sizeof(T);
  using Sum = F32;
  using Row = F32;
  using Column = F32;

  CAMSHAFT_INLINE_MEMBER F32 column(const std::byte* b) const {
    return load_floats(reinterpret_cast<const T*>(b));
  }
  CAMSHAFT_INLINE_MEMBER F32 row(const std::byte* a) const {
    return set1(*reinterpret_cast<const float*>(a));
  }
  CAMSHAFT_INLINE_MEMBER void add_product(F32 row, F32 column, F32& sum) const {
    add_in_place(row, column, sum);
  }
};

template <class T>
struct Tiles {
  template <int kRows, int kVecs>
  struct Narrow {
    static void run(const Tile& t) {
      run_float_tiles<kRows, kVecs>(
          t, [&t](const std::byte* a, Accumulators<F32, kRows, kVecs>& acc)
                 __attribute__((always_inline)) { multiply<NarrowProduct<T>>(t, a, acc); });
    }
  };
  static constexpr KernelTable<Narrow, kMaxNarrowRows> kTable{};
};

}  // namespace

TileKernel narrow_tile_kernel(Stored stored, int vecs, int rows) {
  return stored == Stored::kHalf ? Tiles<Half>::kTable.at(vecs, rows)
                                 : Tiles<Bf16>::kTable.at(vecs, rows);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
