// SPDX-License-Identifier: Apache-2.0
// Between int64 and doubles of whole numbers, in vectors of every instruction set.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

inline constexpr int64_t kHeldByDoubles = int64_t{1} << 51;
inline constexpr double kMagic = 0x1.8p52;  // added to a whole number: its bits are the last ones
inline constexpr int64_t kMagicBits = 0x4338000000000000;

// Of magnitudes up to kHeldByDoubles.
CAMSHAFT_INLINE double as_double(int64_t a) {
  return std::bit_cast<double>(a + kMagicBits) - kMagic;
}
CAMSHAFT_INLINE int64_t as_whole(double a) {
  return static_cast<int64_t>(std::bit_cast<uint64_t>(a + kMagic) -
                              static_cast<uint64_t>(kMagicBits));
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
