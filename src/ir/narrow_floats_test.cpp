// SPDX-License-Identifier: Apache-2.0
// Every value of both types, its neighbours among the floats, and the edges of their ranges.
#include "ir/narrow_floats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace camshaft::ir {
namespace {

float half_of(uint32_t bits) {
  const uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                   : std::ldexp(1024.0F + static_cast<float>(fraction),
                                                static_cast<int>(exponent) - 25);
  return bits >> 15 != 0 ? -size : size;
}

bool is_half(float value) {
  return narrow_types({&value, 1}).half;
}
bool is_bfloat16(float value) {
  return narrow_types({&value, 1}).bfloat16;
}

TEST(NarrowFloats, EveryHalfAndNoneOfItsNeighbours) {
  for (uint32_t bits = 0; bits < 1u << 16; ++bits) {
    if ((bits >> 10 & 31) == 31) continue;
    const float value = half_of(bits);
    ASSERT_TRUE(is_half(value)) << value;
    ASSERT_FALSE(is_half(std::nextafter(value, INFINITY))) << value;
    ASSERT_FALSE(is_half(std::nextafter(value, -INFINITY))) << value;
  }
  for (const float value : {65536.0F, -65536.0F, std::ldexp(1.0F, -25), std::ldexp(3.0F, -25)})
    EXPECT_FALSE(is_half(value)) << value;
}

TEST(NarrowFloats, EveryBfloat16AndNoneOfItsNeighbours) {
  for (uint32_t high = 0; high < 1u << 16; ++high) {
    const uint32_t exponent = high >> 7 & 255;
    const auto value = std::bit_cast<float>(high << 16);
    const bool is_denormal = exponent == 0 && (high & 127) != 0, is_nan = std::isnan(value);
    ASSERT_EQ(is_bfloat16(value), !is_denormal && !is_nan) << value;
    ASSERT_FALSE(is_bfloat16(std::bit_cast<float>(high << 16 | 1))) << value;
    ASSERT_FALSE(is_bfloat16(std::bit_cast<float>(high << 16 | 0x8000))) << value;
  }
}

TEST(NarrowFloats, InfinitiesYesNaNsNo) {
  for (const float value : {std::numeric_limits<float>::infinity(), -INFINITY, 0.0F, -0.0F}) {
    EXPECT_TRUE(is_half(value));
    EXPECT_TRUE(is_bfloat16(value));
  }
  EXPECT_FALSE(is_half(NAN));
  EXPECT_FALSE(is_bfloat16(NAN));
}

TEST(NarrowFloats, OneValueDecides) {
  std::vector<float> values(5000, 0.5F);
  EXPECT_TRUE(narrow_types(values).half && narrow_types(values).bfloat16);
  values[4999] = 1e20F;  // a bfloat16 is near, this is none
  EXPECT_FALSE(narrow_types(values).half || narrow_types(values).bfloat16);
  values[4999] = std::bit_cast<float>(0x60ad0000u);
  EXPECT_FALSE(narrow_types(values).half);
  EXPECT_TRUE(narrow_types(values).bfloat16);
  values[4999] = 1 + 1.0F / 1024;
  EXPECT_TRUE(narrow_types(values).half);
  EXPECT_FALSE(narrow_types(values).bfloat16);
}

TEST(NarrowFloats, AConstantIsReadOnce) {
  std::vector<std::byte> bytes(64);
  const auto constant = make_constant(std::move(bytes));
  EXPECT_TRUE(narrow_types_of(*constant).half);
  ASSERT_NE(constant->narrow, nullptr);
  const NarrowTypes* kept = constant->narrow.get();
  narrow_types_of(*constant);
  EXPECT_EQ(constant->narrow.get(), kept);
}

}  // namespace
}  // namespace camshaft::ir
