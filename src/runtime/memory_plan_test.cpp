// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory_plan.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace camshaft::runtime {
namespace {

bool overlap(const MemoryBlock& a, const MemoryBlock& b) {
  const bool in_time = a.first <= b.last && b.first <= a.last;
  const bool in_space = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
  return in_time && in_space;
}

// The largest sum of blocks alive at one step: no plan can be smaller.
size_t lower_bound(const std::vector<MemoryBlock>& blocks, int steps) {
  size_t most = 0;
  for (int step = 0; step < steps; ++step) {
    size_t sum = 0;
    for (const MemoryBlock& b : blocks) sum += b.first <= step && step <= b.last ? b.bytes : 0;
    most = std::max(most, sum);
  }
  return most;
}

TEST(MemoryPlan, LiveBlocksNeverOverlap) {
  std::mt19937 generator(3);
  double total = 0, bound = 0;
  for (int round = 0; round < 200; ++round) {
    const int steps = 30;
    std::vector<MemoryBlock> blocks(1 + generator() % 40);
    for (MemoryBlock& b : blocks) {
      b.bytes = generator() % 5 == 0 ? 0 : generator() % 5000;
      b.first = static_cast<int>(generator() % steps);
      b.last = std::min<int>(steps - 1, b.first + generator() % 6);
    }
    const size_t arena = plan_memory(blocks);
    for (size_t i = 0; i < blocks.size(); ++i) {
      EXPECT_EQ(blocks[i].offset % 64, 0u);
      EXPECT_LE(blocks[i].offset + blocks[i].bytes,
                std::max<size_t>(arena, blocks[i].bytes == 0 ? blocks[i].offset : 0));
      for (size_t j = 0; j < i; ++j)
        ASSERT_FALSE(blocks[i].bytes > 0 && blocks[j].bytes > 0 && overlap(blocks[i], blocks[j]));
    }
    const size_t least = lower_bound(blocks, steps);
    EXPECT_GE(arena, least);
    total += static_cast<double>(arena);
    bound += static_cast<double>(least);
  }
  EXPECT_LT(total, 1.15 * bound);  // near the bound on average
}

TEST(MemoryPlan, ChainsUseTwoBuffers) {
  std::vector<MemoryBlock> blocks;
  for (int k = 0; k < 10; ++k) blocks.push_back({640, k, k + 1, 0});
  EXPECT_EQ(plan_memory(blocks), 1280u);
}

TEST(MemoryPlan, TakesThePlacesOfBlocksThatAreAsLarge) {
  std::vector<MemoryBlock> planned = {{100, 0, 1, 0}, {200, 1, 2, 0}, {60, 2, 3, 0}};
  plan_memory(planned);
  std::vector<MemoryBlock> grown = {{120, 0, 1, 0}, {200, 1, 2, 0}, {64, 2, 3, 0}};
  ASSERT_TRUE(take_places(planned, grown));  // 128, 256 and 64 bytes, as before
  for (size_t k = 0; k < planned.size(); ++k) EXPECT_EQ(grown[k].offset, planned[k].offset);
  std::vector<MemoryBlock> larger = {{129, 0, 1, 0}, {200, 1, 2, 0}, {64, 2, 3, 0}};
  EXPECT_FALSE(take_places(planned, larger));
  std::vector<MemoryBlock> longer = {{100, 0, 2, 0}, {200, 1, 2, 0}, {60, 2, 3, 0}};
  EXPECT_FALSE(take_places(planned, longer));
  EXPECT_FALSE(take_places(planned, std::span(grown).first(2)));
}

}  // namespace
}  // namespace camshaft::runtime
