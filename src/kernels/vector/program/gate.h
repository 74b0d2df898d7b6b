// SPDX-License-Identifier: Apache-2.0
// The factor of a gated epilogue (Epilogue::is_gated).
#pragma once

#include "kernels/epilogue/epilogue.h"
#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// The constant operand comes first, so that NaN stays NaN.
CAMSHAFT_INLINE F32 gate_of(const Gate& gate, F32 v) {
  return min(set1(gate.high), max(set1(gate.low), fma(v, set1(gate.scale), set1(gate.shift))));
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
