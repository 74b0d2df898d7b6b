// SPDX-License-Identifier: Apache-2.0
// W16: a vector of kWords = 2 * kLanes int16. Arithmetic wraps.
#pragma once

#include <cstring>

#include "kernels/simd/simd.h"

#include CAMSHAFT_SIMD(words.h)

namespace camshaft::kernels::CAMSHAFT_TARGET {

// The first `count` ≤ kWords codes; other lanes are 0.
CAMSHAFT_INLINE W16 load_codes(const uint8_t* p, int64_t count) {
  uint8_t codes[kWords] = {};
  std::memcpy(codes, p, static_cast<size_t>(count));
  return load_codes(codes);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
