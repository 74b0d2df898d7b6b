// SPDX-License-Identifier: Apache-2.0
#include "trace/ranges.h"

#include <algorithm>

namespace camshaft::trace {

Ranges merged(std::vector<Range> any) {
  std::sort(any.begin(), any.end(),
            [](const Range& a, const Range& b) { return a.start < b.start; });
  size_t kept = 0;
  for (const Range& range : any) {
    if (kept > 0 && range.start <= any[kept - 1].end)
      any[kept - 1].end = std::max(any[kept - 1].end, range.end);
    else
      any[kept++] = range;
  }
  any.resize(kept);
  return any;
}

Ranges intersect(const Ranges& a, const Ranges& b) {
  Ranges both;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Range part{std::max(a[i].start, b[j].start), std::min(a[i].end, b[j].end)};
    if (part.start < part.end) both.push_back(part);
    if (a[i].end < b[j].end)
      ++i;
    else
      ++j;
  }
  return both;
}

Ranges subtract(const Ranges& a, const Ranges& b) {
  Ranges rest;
  size_t j = 0;
  for (Range left : a) {
    while (j < b.size() && b[j].end <= left.start) ++j;
    for (size_t k = j; k < b.size() && b[k].start < left.end; ++k) {
      if (b[k].start > left.start) rest.push_back({left.start, b[k].start});
      left.start = std::max(left.start, b[k].end);
    }
    if (left.start < left.end) rest.push_back(left);
  }
  return rest;
}

double total(const Ranges& ranges) {
  double sum = 0;
  for (const Range& range : ranges) sum += range.end - range.start;
  return sum;
}

double total_within(const Ranges& ranges, const Range& window) {
  auto first = std::partition_point(ranges.begin(), ranges.end(),
                                    [&](const Range& range) { return range.end <= window.start; });
  double sum = 0;
  for (; first != ranges.end() && first->start < window.end; ++first)
    sum += std::max(0.0, std::min(first->end, window.end) - std::max(first->start, window.start));
  return sum;
}

}  // namespace camshaft::trace
