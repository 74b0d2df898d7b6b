// SPDX-License-Identifier: Apache-2.0
// 16-bit floats against their definition, conversions, strided reads and writes, broadcasting.
#include "kernels/reference/access.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <numeric>

namespace camshaft::kernels::reference {
namespace {

// Value of a half by its definition.
double half_value(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

TEST(HalfPrecision, EveryValueGoesThereAndBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = half_to_float(half);
    if (((bits >> 10) & 31) == 31) {
      EXPECT_EQ(std::isnan(value), (bits & 1023) != 0) << bits;
      continue;
    }
    ASSERT_EQ(value, half_value(half)) << bits;
    ASSERT_EQ(float_to_half(value), half) << bits;
  }
}

TEST(HalfPrecision, RoundsToNearestEven) {
  for (uint32_t bits = 0; bits + 1 < 0x7c00;
       bits += 3) {  // between neighbours: the nearer one, at the middle the even one
    const auto low = static_cast<uint16_t>(bits), high = static_cast<uint16_t>(bits + 1);
    const auto middle = static_cast<float>((half_value(low) + half_value(high)) / 2);
    ASSERT_EQ(float_to_half(middle), bits % 2 ? high : low) << bits;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0f)), low) << bits;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 1e9f)), high) << bits;
  }
  EXPECT_EQ(float_to_half(65520), 0x7c00);
  EXPECT_EQ(float_to_half(65519), 0x7bff);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::infinity()), 0x7c00);
}

TEST(BFloat16, RoundsToNearestEven) {
  EXPECT_EQ(float_to_bfloat16(1.0f), 0x3f80);
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_TRUE(
      std::isnan(bfloat16_to_float(float_to_bfloat16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(Store, SaturatesFloatsAndWrapsIntegers) {
  int8_t bytes[4];
  store(make_view(bytes, DataType::kInt8, Format::kLinear, Extents{4}),
        std::vector<double>{200, -200, 2.5, 3.5});
  EXPECT_EQ(std::vector<int>(bytes, bytes + 4), (std::vector<int>{127, -128, 2, 4}));
  store(make_view(bytes, DataType::kInt8, Format::kLinear, Extents{1}), Ints{200});
  EXPECT_EQ(bytes[0], -56);
}

TEST(Int4, TwoPerByteLowNibbleFirst) {
  uint8_t bytes[2] = {};
  const TensorView view = make_view(bytes, DataType::kInt4, Format::kLinear, Extents{3});
  store(view, Ints{-8, 7, -1});
  EXPECT_EQ(bytes[0], 0x78);
  EXPECT_EQ(bytes[1] & 15, 0x0f);
  EXPECT_EQ(load<int64_t>(view), (Ints{-8, 7, -1}));
}

TEST(Views, ChannelLastReadsInLogicalOrder) {
  std::vector<float> memory(2 * 3 * 4);
  std::iota(memory.begin(), memory.end(), 0.0f);
  const TensorView view =
      make_view(memory.data(), DataType::kFloat, Format::kChannelLast, Extents{2, 3, 4});
  const std::vector<float> values = load<float>(view);
  for (int n = 0; n < 2; ++n)
    for (int c = 0; c < 3; ++c)
      for (int w = 0; w < 4; ++w)
        EXPECT_EQ(values[(n * 3 + c) * 4 + w], static_cast<float>((n * 4 + w) * 3 + c));
  std::vector<float> copy(memory.size(), -1);
  store(make_view(copy.data(), DataType::kFloat, Format::kChannelLast, Extents{2, 3, 4}), values);
  EXPECT_EQ(copy, memory);
}

TEST(Views, BroadcastBothWays) {
  float data[] = {1, 2};
  const TensorView column = make_view(data, DataType::kFloat, Format::kLinear, Extents{2, 1});
  EXPECT_EQ(load<float>(broadcast_to(column, Extents{2, 2, 3})),
            (std::vector<float>{1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2}));
  const TensorView views[] = {column,
                              make_view(nullptr, DataType::kFloat, Format::kLinear, Extents{4})};
  EXPECT_EQ(broadcast_extents(views).value(), (Extents{2, 4}));
  const TensorView clash[] = {column,
                              make_view(nullptr, DataType::kFloat, Format::kLinear, Extents{3, 1})};
  EXPECT_FALSE(broadcast_extents(clash).ok());
}

}  // namespace
}  // namespace camshaft::kernels::reference
