// SPDX-License-Identifier: Apache-2.0
// Convolutions of bytes and of bfloat16s in AMX's matrix registers, on machines that have them.
#include "kernels/vector/convolution/conv_form.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::conv_amx {
namespace {

using namespace conv_form;

#define CAMSHAFT_AMX_CONV_ROWS(vecs, tile)                                                    \
  row<matrices(vecs, Reading::kDirect, Numeric::kByte)>("conv_amx_nhwc_u8i8_" tile),          \
      row<matrices(vecs, Reading::kCopied, Numeric::kByte)>("conv_amx_copy_nhwc_u8i8_" tile), \
      row<matrices(vecs, Reading::kDirect, Numeric::kBf16)>("conv_amx_nhwc_bf16_" tile),      \
      row<matrices(vecs, Reading::kCopied, Numeric::kBf16)>("conv_amx_copy_nhwc_bf16_" tile),

constexpr Form matrices(int vecs, Reading reading, Numeric numeric) {
  return {vecs, reading, numeric, 1, false, SparseIndex::kNone, true};
}

#if defined(CAMSHAFT_HAS_AMX)
constexpr Tactic kAmxTactics[] = {CAMSHAFT_AMX_TILES(CAMSHAFT_AMX_CONV_ROWS)};
#else
constexpr std::span<const Tactic> kAmxTactics;
#endif
#undef CAMSHAFT_AMX_CONV_ROWS

}  // namespace

std::span<const Tactic> tactics() {
  return kAmxTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::conv_amx
