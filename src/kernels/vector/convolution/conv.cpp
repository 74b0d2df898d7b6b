// SPDX-License-Identifier: Apache-2.0
// The dense convolution tactics: conv_gemm over channel-last tensors, one row per register tile and
// way of reading the input; conv_fold for few output channels.
#include "kernels/simd/tiles.h"
#include "kernels/vector/convolution/conv_form.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::conv {
namespace {

using namespace conv_form;

#define CAMSHAFT_CONV_ROWS(vecs, tile)                                    \
  row<Form{vecs, Reading::kDirect}>("conv_gemm_nhwc_f32_" tile),          \
      row<Form{vecs, Reading::kCopied}>("conv_gemm_copy_nhwc_f32_" tile), \
      row<Form{vecs, Reading::kLinear}>("conv_gemm_first_f32_" tile),     \
      row<Form{vecs, Reading::kWindows}>("conv_im2col_nhwc_f32_" tile),   \
      row<Form{vecs, Reading::kDirect, Numeric::kFloat, 1, true}>(        \
          "conv_gemm_parts_nhwc_f32_" tile),
#define CAMSHAFT_BYTE_CONV_ROWS(vecs, tile)                                                \
  row<Form{vecs, Reading::kDirect, Numeric::kByte}>("conv_gemm_nhwc_u8i8_" tile),          \
      row<Form{vecs, Reading::kCopied, Numeric::kByte}>("conv_gemm_copy_nhwc_u8i8_" tile), \
      row<Form{vecs, Reading::kLinear, Numeric::kByte}>("conv_gemm_first_u8i8_" tile),

#define CAMSHAFT_SPARSE_CONV_ROWS(vecs, tile)                                              \
  row<sparse(vecs, Reading::kDirect, SparseIndex::kBytes)>("conv_sparse_nhwc_u8i8_" tile), \
      row<sparse(vecs, Reading::kCopied, SparseIndex::kBytes)>(                            \
          "conv_sparse_copy_nhwc_u8i8_" tile),                                             \
      row<sparse(vecs, Reading::kDirect, SparseIndex::kBits)>("conv_sparse_bits_nhwc_u8i8_" tile),

#define CAMSHAFT_PICK_CONV_ROW(vecs, tile)                                   \
  row<sparse(vecs, Reading::kDirect, SparseIndex::kPicks, Numeric::kFloat)>( \
      "conv_sparse_picks_nhwc_f32_" tile),

#define CAMSHAFT_BF16_CONV_ROWS(vecs, tile)                                                \
  row<Form{vecs, Reading::kDirect, Numeric::kBf16}>("conv_gemm_nhwc_bf16_" tile),          \
      row<Form{vecs, Reading::kCopied, Numeric::kBf16}>("conv_gemm_copy_nhwc_bf16_" tile), \
      row<Form{vecs, Reading::kLinear, Numeric::kBf16}>("conv_gemm_first_bf16_" tile),

#define CAMSHAFT_WORD_CONV_ROWS(vecs, tile)                                                  \
  row<Form{vecs, Reading::kDirect, Numeric::kWord}>("conv_gemm_words_nhwc_u8i8_" tile),      \
      row<Form{vecs, Reading::kLinear, Numeric::kWord}>("conv_gemm_words_first_u8i8_" tile), \
      row<Form{vecs, Reading::kWindows, Numeric::kWord}>("conv_im2col_words_nhwc_u8i8_" tile),

constexpr Form folded(int vecs, int fold) {
  return {vecs, Reading::kDirect, Numeric::kFloat, fold};
}

constexpr Form sparse(int vecs, Reading reading, SparseIndex index,
                      Numeric numeric = Numeric::kByte) {
  return {vecs, reading, numeric, 1, false, index};
}

#define CAMSHAFT_CONV_FOLD_ROW(fold) row<folded(1, fold)>("conv_fold" #fold "_nhwc_f32"),

constexpr Tactic kTactics[] = {
    CAMSHAFT_GEMM_TILES(CAMSHAFT_CONV_ROWS) CAMSHAFT_BYTE_TILES(CAMSHAFT_BYTE_CONV_ROWS)
        CAMSHAFT_BYTE_TILES(CAMSHAFT_BF16_CONV_ROWS) CAMSHAFT_WORD_TILES(CAMSHAFT_WORD_CONV_ROWS)
            CAMSHAFT_SPARSE_TILES(CAMSHAFT_SPARSE_CONV_ROWS)
                CAMSHAFT_PICK_TILES(CAMSHAFT_PICK_CONV_ROW)
                    row<folded(kMaxFoldVecs, 2)>("conv_fold2_nhwc_f32"),
    row<folded(kMaxFoldVecs, 4)>("conv_fold4_nhwc_f32"),
    CAMSHAFT_LANE_FOLDS(CAMSHAFT_CONV_FOLD_ROW)};
#undef CAMSHAFT_CONV_ROWS
#undef CAMSHAFT_BYTE_CONV_ROWS
#undef CAMSHAFT_SPARSE_CONV_ROWS
#undef CAMSHAFT_PICK_CONV_ROW
#undef CAMSHAFT_BF16_CONV_ROWS
#undef CAMSHAFT_WORD_CONV_ROWS
#undef CAMSHAFT_CONV_FOLD_ROW

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::conv
