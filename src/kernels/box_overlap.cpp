// SPDX-License-Identifier: Apache-2.0
#include "kernels/box_overlap.h"

#include "base/cpu.h"

namespace camshaft::kernels {

namespace scalar {
bool any_overlaps(const BoxLists& boxes, const Box& box, double threshold);
}
namespace avx2 {
bool any_overlaps(const BoxLists& boxes, const Box& box, double threshold);
}
namespace avx512 {
bool any_overlaps(const BoxLists& boxes, const Box& box, double threshold);
}

void KeptBoxes::add(const Box& box) {
  const double values[] = {box.y0, box.x0, box.y1, box.x1, box.area()};
  for (int k = 0; k < 5; ++k) lists_[k].push_back(values[k]);
}

void KeptBoxes::clear() {
  for (std::vector<double>& list : lists_) list.clear();
}

bool KeptBoxes::overlap(const Box& box, double threshold) const {
  constexpr decltype(&scalar::any_overlaps) kBySet[kIsaCount] = {
      scalar::any_overlaps, avx2::any_overlaps, avx512::any_overlaps};
  const BoxLists lists{lists_[0].data(), lists_[1].data(), lists_[2].data(),
                       lists_[3].data(), lists_[4].data(), size()};
  return kBySet[static_cast<int>(active_isa())](lists, box, threshold);
}

}  // namespace camshaft::kernels
