// SPDX-License-Identifier: Apache-2.0
#include "base/growing_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <new>
#include <span>
#include <vector>

#include "base/huge_pages.h"

namespace camshaft {
namespace {

std::byte pattern(size_t k) {
  return static_cast<std::byte>(k * 2654435761u >> 13);
}

bool all_zero(const std::byte* first, size_t count) {
  return std::all_of(first, first + count, [](std::byte b) { return b == std::byte(0); });
}

TEST(GrowingBytes, KeepsWhatWasWrittenAndAddsZeros) {
  GrowingBytes bytes;
  EXPECT_TRUE(bytes.empty());
  const size_t steps[] = {1, 63, 4096, kHugePageBytes, 3, 3 * kHugePageBytes + 5, 0, 7};
  for (const size_t step : steps) {
    const size_t before = bytes.size();
    std::byte* added = bytes.append(step);
    ASSERT_EQ(added, bytes.data() + before);
    ASSERT_TRUE(all_zero(added, step));
    for (size_t k = 0; k < step; ++k) added[k] = pattern(before + k);
  }
  const std::span<const std::byte> all(bytes);
  ASSERT_EQ(all.size(), 4 * kHugePageBytes + 4175);
  for (size_t k = 0; k < all.size(); ++k) ASSERT_EQ(all[k], pattern(k)) << k;
}

TEST(GrowingBytes, WhatIsGivenUpComesBackAsZeros) {
  GrowingBytes bytes;
  std::fill_n(bytes.append(5000), 5000, std::byte(1));
  bytes.truncate(9000);  // nothing
  EXPECT_EQ(bytes.size(), 5000u);
  bytes.truncate(10);
  EXPECT_EQ(bytes.size(), 10u);
  EXPECT_TRUE(all_zero(bytes.append(4990), 4990));
  EXPECT_EQ(bytes.data()[9], std::byte(1));
}

TEST(GrowingBytes, MovesAndRefusesWhatNoMachineHas) {
  GrowingBytes bytes;
  bytes.append(10)[3] = std::byte(7);
  GrowingBytes moved = std::move(bytes);
  EXPECT_EQ(moved.size(), 10u);
  EXPECT_EQ(moved.data()[3], std::byte(7));
  EXPECT_THROW(moved.append(std::numeric_limits<size_t>::max() / 4), std::bad_alloc);
  EXPECT_EQ(moved.size(), 10u);
  EXPECT_EQ(moved.data()[3], std::byte(7));
}

}  // namespace
}  // namespace camshaft
