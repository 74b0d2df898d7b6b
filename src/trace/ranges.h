// SPDX-License-Identifier: Apache-2.0
// Sets of time as sorted, disjoint ranges.
#pragma once

#include <vector>

namespace camshaft::trace {

struct Range {
  double start = 0, end = 0;
  bool operator==(const Range&) const = default;
};
using Ranges =
    std::vector<Range>;  // sorted by start and disjoint wherever a function takes or gives it

Ranges merged(std::vector<Range> any);  // the union of ranges in any order
Ranges intersect(const Ranges& a, const Ranges& b);
Ranges subtract(const Ranges& a, const Ranges& b);
double total(const Ranges& ranges);
double total_within(const Ranges& ranges, const Range& window);

}  // namespace camshaft::trace
