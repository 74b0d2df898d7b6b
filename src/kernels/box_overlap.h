// SPDX-License-Identifier: Apache-2.0
// Boxes that cover each other: the inner loop of NonMaxSuppression, in the machine's vectors.
#pragma once

#include <cstdint>
#include <vector>

namespace camshaft::kernels {

struct Box {
  double y0, x0, y1, x1;
  double area() const { return (y1 - y0) * (x1 - x0); }
};

// Boxes as a list per edge.
struct BoxLists {
  const double *y0, *x0, *y1, *x1, *area;
  int64_t count;
};

class KeptBoxes {
 public:
  int64_t size() const { return static_cast<int64_t>(lists_[0].size()); }
  void add(const Box& box);
  void clear();
  // Whether `box` and one of these have more than `threshold` (0 to 1) of their union in common.
  bool overlap(const Box& box, double threshold) const;

 private:
  std::vector<double> lists_[5];
};

}  // namespace camshaft::kernels
