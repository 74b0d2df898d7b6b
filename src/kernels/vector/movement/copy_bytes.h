// SPDX-License-Identifier: Apache-2.0
// Rows of bytes. memcpy is a call with branches on the size; short rows, as channels of a pixel
// are, are not worth it: rows of 16 bytes take 1 ns here, 4 ns there.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// `bytes` is one to two steps: the second overlaps the first.
template <int kStep>
CAMSHAFT_INLINE void copy_ends(const char* from, char* to, int64_t bytes) {
  char first[kStep], last[kStep];
  __builtin_memcpy(first, from, kStep);
  __builtin_memcpy(last, from + bytes - kStep, kStep);
  __builtin_memcpy(to, first, kStep);
  __builtin_memcpy(to + bytes - kStep, last, kStep);
}

CAMSHAFT_INLINE void copy_bytes(const char* from, char* to, int64_t bytes) {
  constexpr int kStep = 32;
  if (bytes > 1024) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  } else if (bytes > kStep) {
    for (int64_t k = 0; k + kStep < bytes; k += kStep) __builtin_memcpy(to + k, from + k, kStep);
    __builtin_memcpy(to + bytes - kStep, from + bytes - kStep, kStep);
  } else if (bytes >= 16) {
    copy_ends<16>(from, to, bytes);
  } else if (bytes >= 8) {
    copy_ends<8>(from, to, bytes);
  } else if (bytes >= 4) {
    copy_ends<4>(from, to, bytes);
  } else {
    for (int64_t k = 0; k < bytes; ++k) to[k] = from[k];
  }
}

// Calls body(element), an unsigned number of that size.
template <class Body>
CAMSHAFT_INLINE auto with_element(int64_t bytes, const Body& body) {
  switch (bytes) {
    case 1:
      return body(uint8_t());
    case 2:
      return body(uint16_t());
    case 4:
      return body(uint32_t());
    default:
      return body(uint64_t());
  }
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
