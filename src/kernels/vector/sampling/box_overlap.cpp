// SPDX-License-Identifier: Apache-2.0
// The comparisons of KeptBoxes::overlap (kernels/box_overlap.h).
#include "kernels/box_overlap.h"

#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

bool any_overlaps(const BoxLists& boxes, const Box& box, double threshold) {
  constexpr int64_t kStep = 16;  // between looks whether there was one
  const auto low = [](double a, double b) { return a < b ? a : b; };
  const auto high = [](double a, double b) { return a < b ? b : a; };
  const double area = box.area();
  const auto overlaps = [&](int64_t k) {
    const double height = low(box.y1, boxes.y1[k]) - high(box.y0, boxes.y0[k]),
                 width = low(box.x1, boxes.x1[k]) - high(box.x0, boxes.x0[k]),
                 common = high(0.0, height) * high(0.0, width);
    return common > threshold * (area + boxes.area[k] - common);
  };
  int64_t first = 0;
  for (; first + kStep <= boxes.count; first += kStep) {
    int64_t any = 0;
    for (int64_t k = first; k < first + kStep; ++k) any |= overlaps(k) ? 1 : 0;
    if (any != 0) return true;
  }
  for (; first < boxes.count; ++first)
    if (overlaps(first)) return true;
  return false;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
