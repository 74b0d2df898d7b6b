// SPDX-License-Identifier: Apache-2.0
// W16: a vector of kWords = 2 * kLanes int16. Arithmetic wraps.
#pragma once

#include <cstring>

#include "kernels/simd/simd.h"

#include CAMSHAFT_SIMD(words.h)

namespace camshaft::kernels::CAMSHAFT_TARGET {

#if !defined( \
    CAMSHAFT_HAS_BYTE_PAIRS)  // where words are multiplied instead of bytes, it has to be fast
// Neighbouring bytes become neighbouring words.
CAMSHAFT_INLINE void widen_bytes(const std::byte* from, int64_t count, std::byte* to) {
  for (int64_t k = 0; k < count; ++k) {
    const uint16_t word = std::to_integer<uint16_t>(from[k]);
    __builtin_memcpy(to + 2 * k, &word, sizeof word);
  }
}
#endif

// The first `count` ≤ kWords codes; other lanes are 0.
CAMSHAFT_INLINE W16 load_codes(const uint8_t* p, int64_t count) {
  uint8_t codes[kWords] = {};
  std::memcpy(codes, p, static_cast<size_t>(count));
  return load_codes(codes);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
