// SPDX-License-Identifier: Apache-2.0
#include "cli/statistics.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace camshaft::cli {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// trtexec: sorted ascending, index max(n - 1 - floor((1 - P/100) n), 0).
TEST(Percentile, IndexRule) {
  const std::vector<double> ten = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_EQ(percentile(ten, 100), 9);
  EXPECT_EQ(percentile(ten, 99), 9);
  EXPECT_EQ(percentile(ten, 90), 8);
  EXPECT_EQ(percentile(ten, 50), 4);
  EXPECT_EQ(percentile(ten, 0), 0);
  EXPECT_EQ(percentile({5}, 99), 5);
  EXPECT_EQ(percentile({}, 99), 0);
}

TEST(Summary, MedianOfAnEvenCountAveragesTheMiddlePair) {
  const Summary summary = summarize({4, 1, 3, 2}, {50, 100});
  EXPECT_EQ(summary.min, 1);
  EXPECT_EQ(summary.max, 4);
  EXPECT_EQ(summary.mean, 2.5);
  EXPECT_EQ(summary.median, 2.5);
  EXPECT_EQ(summary.percentiles, (std::vector<double>{2, 4}));
  EXPECT_NEAR(summary.variation, std::sqrt(1.25) / 2.5, 1e-12);
  EXPECT_EQ(summarize({}, {99}).percentiles.size(), 1u);
}

TEST(Percentiles, Parsing) {
  EXPECT_EQ(parse_percentiles("90,99.9", "--percentile").value(), (std::vector<double>{90, 99.9}));
  EXPECT_EQ(parse_percentiles("101", "--percentile").status().message(),
            "--percentile: '101' is not a number from 0 to 100");
  EXPECT_FALSE(parse_percentiles("9,", "--percentile").ok());
  EXPECT_FALSE(parse_percentiles("nan", "--percentile").ok());
}

TEST(Compare, Losses) {
  const Difference difference = compare({1, 2, 3.5, -4}, {1, 2, 3, -2}, 0.1, 0.1);
  EXPECT_EQ(difference.elements, 4);
  EXPECT_EQ(difference.outside, 2);
  EXPECT_EQ(difference.max_absolute, 2);
  EXPECT_EQ(difference.max_relative, 1);
  EXPECT_EQ(accuracy_loss(difference, "l0"), 0.5);
  EXPECT_EQ(accuracy_loss(difference, "l1"), 2.5 / 4);
  EXPECT_EQ(accuracy_loss(difference, "l2"), (0.25 + 4) / 4);
  EXPECT_EQ(accuracy_loss(difference, "lInf"), 2);
  const double dot = 1 + 4 + 10.5 + 8;
  EXPECT_NEAR(accuracy_loss(difference, "cos"),
              1 - dot / std::sqrt((1 + 4 + 12.25 + 16) * (1 + 4 + 9 + 4)), 1e-12);
}

TEST(Compare, NanAndInfinityCountAsFarUnlessExpected) {
  EXPECT_EQ(compare({kNan}, {1}, 1, 1).outside, 1);
  EXPECT_EQ(compare({kNan}, {1}, 1, 1).max_absolute, kInf);
  EXPECT_EQ(compare({1}, {kNan}, 1, 1).outside, 1);
  EXPECT_EQ(compare({kNan, kInf, -kInf}, {kNan, kInf, -kInf}, 0, 0).outside, 0);
  EXPECT_EQ(compare({kInf}, {-kInf}, 0, 0).outside, 1);
  EXPECT_EQ(compare({0, 0}, {0, 0}, 0, 0).cosine, 1);
  EXPECT_EQ(compare({}, {}, 0, 0).outside, 0);
}

TEST(ToDoubles, EveryType) {
  const uint16_t half[] = {0x3C00, 0xC000, 0x0001, 0x7C00};
  EXPECT_EQ(to_doubles({DataType::kHalf, {4}, half}),
            (std::vector<double>{1, -2, std::ldexp(1.0, -24), kInf}));
  const uint16_t bfloat[] = {0x3F80, 0xC040};
  EXPECT_EQ(to_doubles({DataType::kBFloat16, {2}, bfloat}), (std::vector<double>{1, -3}));
  const int64_t wide[] = {-5, 7};
  EXPECT_EQ(to_doubles({DataType::kInt64, {2}, wide}), (std::vector<double>{-5, 7}));
  const uint8_t nibbles[] = {0xF7, 0x08};
  EXPECT_EQ(to_doubles({DataType::kInt4, {3}, nibbles}), (std::vector<double>{7, -1, -8}));
  EXPECT_EQ(to_doubles({DataType::kUInt4, {3}, nibbles}), (std::vector<double>{7, 15, 8}));
  const float scalar = 2.5F;
  EXPECT_EQ(to_doubles({DataType::kFloat, {}, &scalar}), (std::vector<double>{2.5}));
}

}  // namespace
}  // namespace camshaft::cli
