// SPDX-License-Identifier: Apache-2.0
#include "ep/partition.h"

#include <random>

#include <gtest/gtest.h>

namespace camshaft::ep {
namespace {

using Parts = std::vector<std::vector<size_t>>;

TEST(Partition, AllSupportedIsOne) {
  EXPECT_EQ(partition({{{}, true}, {{0}, true}, {{1}, true}}), (Parts{{0, 1, 2}}));
  EXPECT_EQ(partition({{{}, false}}), Parts{});
}

TEST(Partition, AnUnsupportedNodeCutsItsPathOnly) {
  // 0 → 1(no) → 3, 0 → 2 → 3
  EXPECT_EQ(partition({{{}, true}, {{0}, false}, {{0}, true}, {{1, 2}, true}}),
            (Parts{{0, 2}, {3}}));
  // An unsupported node at the end cuts nothing.
  EXPECT_EQ(partition({{{}, true}, {{0}, true}, {{1}, false}}), (Parts{{0, 1}}));
}

TEST(Partition, TwoUnsupportedInARowAreOneCut) {
  EXPECT_EQ(partition({{{}, true}, {{0}, false}, {{1}, false}, {{2}, true}}), (Parts{{0}, {3}}));
}

// Whether a path from `part` through another node comes back into it.
bool comes_back(const std::vector<PartNode>& nodes, const std::vector<size_t>& part) {
  std::vector<bool> inside(nodes.size()), outside_after(nodes.size());
  for (size_t k : part) inside[k] = true;
  for (size_t k = 0; k < nodes.size(); ++k)
    for (size_t producer : nodes[k].needs) {
      if (inside[k] && outside_after[producer]) return true;
      if (!inside[k] && (inside[producer] || outside_after[producer])) outside_after[k] = true;
    }
  return false;
}

TEST(Partition, RandomGraphsHaveNoPathBack) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<PartNode> nodes(1 + random() % 40);
    size_t supported = 0;
    for (size_t k = 0; k < nodes.size(); ++k) {
      nodes[k].is_supported = random() % 4 != 0;
      supported += nodes[k].is_supported;
      for (size_t edges = k > 0 ? random() % 3 : 0; edges > 0; --edges)
        nodes[k].needs.push_back(random() % k);
    }
    size_t placed = 0;
    for (const auto& part : partition(nodes)) {
      placed += part.size();
      for (size_t k : part) EXPECT_TRUE(nodes[k].is_supported);
      EXPECT_FALSE(comes_back(nodes, part)) << "round " << round;
    }
    EXPECT_EQ(placed, supported);
  }
}

}  // namespace
}  // namespace camshaft::ep
