// SPDX-License-Identifier: Apache-2.0
#include "ir/narrow_floats.h"

#include <algorithm>
#include <bit>
#include <mutex>

namespace camshaft::ir {
namespace {

constexpr uint32_t kFractionBits = 23, kFraction = (1u << kFractionBits) - 1;
constexpr uint32_t kNotFinite = 255;
// Exponents, as stored in a float, of the smallest half, the smallest normal half, the largest.
constexpr uint32_t kLeastHalf = 103, kLeastNormalHalf = 113, kLargestHalf = 142;
constexpr uint32_t kHalfDropped = 13, kBfloat16Dropped = 16;  // bits of the fraction

bool ends_in_zeros(uint32_t bits, uint32_t count) {
  return (bits & ((1u << count) - 1)) == 0;
}

bool is_half(uint32_t bits) {
  const uint32_t exponent = bits >> kFractionBits & 255, fraction = bits & kFraction;
  if (exponent == 0 || exponent == kNotFinite) return fraction == 0;
  if (exponent < kLeastHalf || exponent > kLargestHalf) return false;
  // A denormal half has as many bits fewer as it is smaller.
  const uint32_t lost = exponent < kLeastNormalHalf ? kLeastNormalHalf - exponent : 0;
  return ends_in_zeros(fraction, kHalfDropped + lost);
}

bool is_bfloat16(uint32_t bits) {
  const uint32_t exponent = bits >> kFractionBits & 255;
  return exponent == 0 || exponent == kNotFinite ? (bits & kFraction) == 0
                                                 : ends_in_zeros(bits, kBfloat16Dropped);
}

}  // namespace

NarrowTypes narrow_types(std::span<const float> values) {
  NarrowTypes types;
  constexpr size_t kTogether = 1024;  // most networks are done after the first of them
  for (size_t first = 0; first < values.size() && (types.half || types.bfloat16);
       first += kTogether)
    for (const float value : values.subspan(first, std::min(kTogether, values.size() - first))) {
      const auto bits = std::bit_cast<uint32_t>(value);
      types.half = types.half && is_half(bits);
      types.bfloat16 = types.bfloat16 && is_bfloat16(bits);
    }
  return types;
}

NarrowTypes narrow_types_of(const ConstantData& constant) {
  static std::mutex mutex;  // contexts may build from one constant at the same time
  {
    const std::lock_guard lock(mutex);
    if (constant.narrow) return *constant.narrow;
  }
  const NarrowTypes types = narrow_types(
      {reinterpret_cast<const float*>(constant.view.data()), constant.view.size() / sizeof(float)});
  const std::lock_guard lock(mutex);
  constant.narrow = std::make_shared<const NarrowTypes>(types);
  return types;
}

}  // namespace camshaft::ir
