// SPDX-License-Identifier: Apache-2.0
// Products of bytes and of bfloat16s with a constant right factor in AMX's matrix registers, on
// machines that have them.
#include "kernels/vector/matmul/matmul_form.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::matmul_amx {
namespace {

using namespace matmul_form;

#define CAMSHAFT_AMX_MATMUL_ROW(vecs, tile)                                                  \
  row<Form{vecs, Numeric::kByte, false, SparseIndex::kNone, true}>("matmul_amx_u8i8_" tile), \
      row<Form{vecs, Numeric::kBf16, false, SparseIndex::kNone, true}>("matmul_amx_bf16_" tile),

#if defined(CAMSHAFT_HAS_AMX)
constexpr Tactic kAmxTactics[] = {CAMSHAFT_AMX_TILES(CAMSHAFT_AMX_MATMUL_ROW)};
#else
constexpr std::span<const Tactic> kAmxTactics;
#endif
#undef CAMSHAFT_AMX_MATMUL_ROW

}  // namespace

std::span<const Tactic> tactics() {
  return kAmxTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::matmul_amx
