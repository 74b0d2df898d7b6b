// SPDX-License-Identifier: Apache-2.0
#include "batching/arrivals.h"

#include <algorithm>

namespace camshaft::batching {

void Arrivals::came(double at_us, int64_t rows) {
  last_[count_++ % last_.size()] = {at_us, rows};
}

double Arrivals::rows_per_us(double now_us) const {
  const uint64_t known = std::min<uint64_t>(count_, last_.size());
  if (known < 2) return 0;
  // The rows of the oldest came before the time that is looked at.
  int64_t rows = 0;
  for (uint64_t k = 1; k < known; ++k) rows += back(k).rows;
  const double us = now_us - back(known).at_us;
  return us > 0 ? static_cast<double>(rows) / us : 0;
}

double Arrivals::since_newest_us(double now_us) const {
  return count_ > 0 ? now_us - back(1).at_us : 0;
}

}  // namespace camshaft::batching
