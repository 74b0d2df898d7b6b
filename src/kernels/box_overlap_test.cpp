// SPDX-License-Identifier: Apache-2.0
// KeptBoxes against the definition, in every instruction set the machine has: counts around a
// vector's, boxes inside each other, apart, without area.
#include "kernels/box_overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/cpu.h"

namespace camshaft::kernels {
namespace {

double share(const Box& a, const Box& b) {
  const double height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0),
               width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  if (height <= 0 || width <= 0) return 0;
  return height * width / (a.area() + b.area() - height * width);
}

TEST(BoxOverlap, AgreesWithTheDefinition) {
  std::mt19937 random(1);
  const auto edge = [&] { return static_cast<double>(random() % 12); };
  const auto box = [&] {
    const double y = edge(), x = edge();
    return Box{y, x, y + edge() / 2, x + edge() / 2};
  };
  const Isa active = active_isa();
  int hits = 0;
  for (int count = 0; count < 40; ++count)
    for (int round = 0; round < 50; ++round) {
      KeptBoxes kept;
      std::vector<Box> boxes;
      for (int k = 0; k < count; ++k) {
        boxes.push_back(box());
        kept.add(boxes.back());
      }
      const Box asked = box();
      // No share of small whole numbers: how a quotient is rounded does not decide.
      const double threshold = 0.05 + 0.9 * std::uniform_real_distribution<>()(random);
      const bool expected = std::any_of(boxes.begin(), boxes.end(), [&](const Box& other) {
        return share(asked, other) > threshold;
      });
      hits += expected;
      for (int isa = 0; isa <= static_cast<int>(active); ++isa) {
        force_isa(static_cast<Isa>(isa));
        EXPECT_EQ(kept.overlap(asked, threshold), expected) << count << " boxes, set " << isa;
      }
      force_isa(active);
      kept.clear();
      EXPECT_EQ(kept.size(), 0);
    }
  EXPECT_GT(hits, 200);
}

}  // namespace
}  // namespace camshaft::kernels
