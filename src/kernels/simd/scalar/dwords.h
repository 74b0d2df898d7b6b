// SPDX-License-Identifier: Apache-2.0
// Dwords as four bytes or packed codes of few bits.
#pragma once

#include "kernels/simd/simd.h"

namespace camshaft::kernels::scalar {

template <int kBits>
CAMSHAFT_INLINE F32 codes_as_floats(const std::byte* p, int shift) {
  I32 dwords;
  __builtin_memcpy(&dwords.v, p, sizeof dwords.v);
  dwords.v = (dwords.v >> shift) & ((1 << kBits) - 1);
  return to_float(dwords);
}

}  // namespace camshaft::kernels::scalar
