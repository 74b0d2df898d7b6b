// SPDX-License-Identifier: Apache-2.0
// Matrix products with a constant right factor, packed while building: linear layers.
#include "kernels/simd/tiles.h"
#include "kernels/vector/matmul/matmul_form.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::matmul {
namespace {

using namespace matmul_form;

#define CAMSHAFT_MATMUL_ROW(vecs, tile)                        \
  row<Form{vecs, Numeric::kFloat}>("matmul_packed_f32_" tile), \
      row<Form{vecs, Numeric::kFloat, true}>("matmul_parts_f32_" tile),
// A processor's own prefetcher may be faster where L3 holds the weights (1x2048x1000, 8 MB: 0.9 of
// the time on Zen 5), and half as fast (on Zen 3).
constexpr Form unfetched(int vecs) {
  return {.vecs = vecs, .numeric = Numeric::kFloat, .fetches = false};
}
#define CAMSHAFT_UNFETCHED_MATMUL_ROW(vecs, tile) \
  row<unfetched(vecs)>("matmul_unfetched_f32_" tile),
#define CAMSHAFT_BYTE_MATMUL_ROW(vecs, tile) \
  row<Form{vecs, Numeric::kByte}>("matmul_packed_u8i8_" tile),
#define CAMSHAFT_WORD_MATMUL_ROW(vecs, tile) \
  row<Form{vecs, Numeric::kWord}>("matmul_words_u8i8_" tile),
#define CAMSHAFT_SPARSE_MATMUL_ROW(vecs, tile)                                             \
  row<Form{vecs, Numeric::kByte, false, SparseIndex::kBytes}>("matmul_sparse_u8i8_" tile), \
      row<Form{vecs, Numeric::kByte, false, SparseIndex::kBits}>("matmul_sparse_bits_u8i8_" tile),

#define CAMSHAFT_PICK_MATMUL_ROW(vecs, tile) \
  row<Form{vecs, Numeric::kFloat, false, SparseIndex::kPicks}>("matmul_sparse_picks_f32_" tile),

constexpr Form narrow(int vecs, Stored stored) {
  return {.vecs = vecs, .numeric = Numeric::kFloat, .stored = stored};
}
#define CAMSHAFT_NARROW_MATMUL_ROW(vecs, tile)                       \
  row<narrow(vecs, Stored::kHalf)>("matmul_half_weights_f32_" tile), \
      row<narrow(vecs, Stored::kBf16)>("matmul_bf16_weights_f32_" tile),

#define CAMSHAFT_BF16_MATMUL_ROW(vecs, tile)                   \
  row<Form{vecs, Numeric::kBf16}>("matmul_packed_bf16_" tile), \
      row<Form{vecs, Numeric::kBf16, false, SparseIndex::kQuads}>("matmul_sparse_bf16_" tile),

constexpr Tactic kTactics[] = {
    CAMSHAFT_GEMM_TILES(CAMSHAFT_MATMUL_ROW) CAMSHAFT_WIDE_TILES(CAMSHAFT_UNFETCHED_MATMUL_ROW)
        CAMSHAFT_BYTE_TILES(CAMSHAFT_BYTE_MATMUL_ROW) CAMSHAFT_WORD_TILES(CAMSHAFT_WORD_MATMUL_ROW)
            CAMSHAFT_SPARSE_TILES(CAMSHAFT_SPARSE_MATMUL_ROW)
                CAMSHAFT_PICK_TILES(CAMSHAFT_PICK_MATMUL_ROW)
                    CAMSHAFT_NARROW_TILES(CAMSHAFT_NARROW_MATMUL_ROW)
                        CAMSHAFT_BYTE_TILES(CAMSHAFT_BF16_MATMUL_ROW)};
#undef CAMSHAFT_MATMUL_ROW
#undef CAMSHAFT_UNFETCHED_MATMUL_ROW
#undef CAMSHAFT_BYTE_MATMUL_ROW
#undef CAMSHAFT_WORD_MATMUL_ROW
#undef CAMSHAFT_SPARSE_MATMUL_ROW
#undef CAMSHAFT_PICK_MATMUL_ROW
#undef CAMSHAFT_NARROW_MATMUL_ROW
#undef CAMSHAFT_BF16_MATMUL_ROW

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::matmul
