// SPDX-License-Identifier: Apache-2.0
#include "ir/sparsity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace camshaft::ir {
namespace {

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
std::vector<float> floats_of(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// [outer][channels][inner] = 1 x 6 x 2: channels 4 and 5 are a group with two that count as zeros.
constexpr ChannelAxis kAxis{1, 6, 2};

TEST(Sparsity, CountsGroupsOfNeighbouringChannels) {
  const std::vector<float> weights = {1, 0, 0, 0, 2, 3, 4, 0, 5, 6, 7, 8};
  const auto count = count_sparsity(DataType::kFloat, bytes_of(weights), kAxis);
  ASSERT_TRUE(count);
  EXPECT_EQ(count->weights, 12);
  EXPECT_EQ(count->nonzeros, 8);
  EXPECT_EQ(count->groups, 4);
  EXPECT_EQ(count->full_groups, 1);  // 1, 0, 2, 4
  EXPECT_EQ(count->excess, 1);
  EXPECT_FALSE(count->is_2_4());
  EXPECT_EQ(count->eights, 2);
  EXPECT_EQ(count->full_eights, 1);
}

TEST(Sparsity, ConstantsAreCountedOnceForEachAxis) {
  const auto constant = make_constant(bytes_of({1, 0, 0, 0, 2, 3, 4, 0, 5, 6, 7, 8}));
  for (int turn = 0; turn < 2; ++turn) {
    const auto count = sparsity_of(*constant, DataType::kFloat, kAxis);
    ASSERT_TRUE(count);
    EXPECT_EQ(count->full_groups, 1);
    EXPECT_TRUE(constant->sparsity);
    EXPECT_EQ(sparsity_of(*constant, DataType::kFloat, {12, 1, 1})->full_groups, 0);
  }
  EXPECT_FALSE(sparsity_of(*constant, DataType::kInt32, kAxis));
}

TEST(Sparsity, FewChannelsAreNoPattern) {
  const std::vector<float> weights(8, 1.0F);
  EXPECT_FALSE(count_sparsity(DataType::kFloat, bytes_of(weights), {8, 1, 1})->is_2_4());
  EXPECT_FALSE(count_sparsity(DataType::kFloat, bytes_of(weights), {4, 2, 1})->is_2_4());
  const std::vector<float> three = {1, 0, 1, 0, 1, 1};
  EXPECT_TRUE(count_sparsity(DataType::kFloat, bytes_of(three), {2, 3, 1})->is_2_4());
}

TEST(Sparsity, PrunesByEachRule) {
  const std::vector<float> weights = {1, 9, -3, 1, -5, 1, 2, 9, 7, 1, 1, 1};
  const auto pruned = [&](KeepRule rule, std::vector<float> norms = {}) {
    std::vector<std::byte> bytes = bytes_of(weights);
    prune_2_4(DataType::kFloat, bytes, kAxis, rule, norms);
    EXPECT_TRUE(count_sparsity(DataType::kFloat, bytes, kAxis)->is_2_4());
    return floats_of(bytes);
  };
  EXPECT_EQ(pruned(KeepRule::kFirstTwo), (std::vector<float>{1, 9, -3, 1, 0, 0, 0, 0, 7, 1, 1, 1}));
  EXPECT_EQ(pruned(KeepRule::kMagnitude),
            (std::vector<float>{0, 9, -3, 0, -5, 0, 0, 9, 7, 1, 1, 1}));
  // Channel 3 is read from large activations.
  EXPECT_EQ(pruned(KeepRule::kActivation, {1, 1, 1, 10, 1, 1}),
            (std::vector<float>{0, 9, 0, 0, -5, 0, 2, 9, 7, 1, 1, 1}));
}

TEST(Sparsity, CountsWhatItZeroes) {
  std::vector<std::byte> bytes = bytes_of({0, 1, 0, 2, 3, 4, 5, 6});
  EXPECT_EQ(prune_2_4(DataType::kFloat, bytes, {2, 4, 1}, KeepRule::kMagnitude), 2);
  std::vector<std::byte> codes = {std::byte{1}, std::byte{0x80}, std::byte{2}, std::byte{0xff}};
  EXPECT_EQ(prune_2_4(DataType::kInt8, codes, {1, 4, 1}, KeepRule::kMagnitude), 2);
  EXPECT_EQ(codes,
            (std::vector<std::byte>{std::byte{0}, std::byte{0x80}, std::byte{2}, std::byte{0}}));
}

TEST(Sparsity, ReadsEveryFloatType) {
  const auto halves = [](std::vector<uint16_t> bits) {
    std::vector<std::byte> bytes(bits.size() * 2);
    std::memcpy(bytes.data(), bits.data(), bytes.size());
    return bytes;
  };
  // 1, -0, the least subnormal, 0
  EXPECT_EQ(count_sparsity(DataType::kHalf, halves({0x3c00, 0x8000, 1, 0}), {1, 4, 1})->nonzeros,
            2);
  EXPECT_EQ(first_not_finite(DataType::kHalf, halves({0x3c00, 0x7bff, 0x7c00})), 2);
  EXPECT_EQ(first_not_finite(DataType::kBFloat16, halves({0x3f80, 0x7fc0})), 1);
  EXPECT_EQ(first_not_finite(DataType::kFloat, bytes_of({1, std::nanf(""), 2})), 1);
  EXPECT_FALSE(first_not_finite(DataType::kFloat, bytes_of({1, 2})));
  EXPECT_FALSE(count_sparsity(DataType::kInt32, bytes_of({1, 2}), {1, 2, 1}));
}

}  // namespace
}  // namespace camshaft::ir
