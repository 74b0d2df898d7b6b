// SPDX-License-Identifier: Apache-2.0
// The tile of bfloat16 pairs with vdpbf16ps (AVX-512 BF16). 14x2: per step of two 28 products, 14
// broadcast loads and 2 loads of B, as the tile of floats, at twice its rate. The instruction
// flushes denormals and rounds to nearest even, whatever the control register says.
#include "kernels/vector/gemm/gemm_bf16.h"

#if defined(CAMSHAFT_HAS_BF16)

#include "kernels/simd/products.h"
#include "kernels/vector/gemm/gemm_bf16_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

template <int kRows, int kVecs>
struct Dpbf16Tile {
  static void run(const Tile& t) { run_pair_tile<Dpbf16Product, kRows, kVecs>(t); }
};

constexpr KernelTable<Dpbf16Tile, kMaxByteRows> kTable;

}  // namespace

void narrow_by_instruction(const float* from, int64_t count, uint16_t* to) {
  int64_t k = 0;
  for (; k + 2 * kLanes <= count; k += 2 * kLanes) {
    __m512i words;
    asm("vcvtne2ps2bf16 %2, %1, %0"
        : "=v"(words)
        : "v"(_mm512_loadu_ps(from + k + kLanes)), "v"(_mm512_loadu_ps(from + k)));
    _mm512_storeu_si512(to + k, words);
  }
  for (; k < count; k += kLanes) {
    const __mmask16 mask = first_n(static_cast<int>(count - k < kLanes ? count - k : kLanes)).m;
    _mm256_mask_storeu_epi16(to + k, mask,
                             Dpbf16Product::narrowed({_mm512_maskz_loadu_ps(mask, from + k)}));
  }
}

TileKernel dpbf16_tile_kernel(int vecs, int rows) {
  return kTable.at(vecs, rows);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET

#endif
