// SPDX-License-Identifier: Apache-2.0
#include "batching/batch_times.h"

#include <algorithm>
#include <cmath>

namespace camshaft::batching {
namespace {

constexpr size_t kMostSizes = 14;
constexpr int64_t kAllUpTo = 12;
constexpr double kFollowAll = 0.1, kFollowOwn = 0.02;
constexpr double kFurthest = 4;  // of one batch from what was expected, as far as it counts
constexpr double kOwnMost = 2;

}  // namespace

std::vector<int64_t> batch_sizes(int64_t max_batch) {
  std::vector<int64_t> sizes;
  if (max_batch <= kAllUpTo) {
    for (int64_t size = 1; size <= std::max<int64_t>(max_batch, 1); ++size) sizes.push_back(size);
    return sizes;
  }
  // 1 2 3 4 6 8 12 16 24 …
  for (int64_t power = 1; power <= max_batch; power *= 2) {
    sizes.push_back(power);
    if (power > 1 && power + power / 2 < max_batch) sizes.push_back(power + power / 2);
  }
  if (sizes.back() != max_batch) sizes.push_back(max_batch);
  // Of the small ones 1 and 2 stay.
  while (sizes.size() > kMostSizes) sizes.erase(sizes.begin() + 2);
  return sizes;
}

BatchTimes::BatchTimes(std::vector<int64_t> sizes)
    : sizes_(std::move(sizes)), load_us_(sizes_.size()), own_(sizes_.size(), 1.0) {}

size_t BatchTimes::index_of(int64_t size) const {
  const auto at = std::lower_bound(sizes_.begin(), sizes_.end(), size);
  return static_cast<size_t>(at - sizes_.begin());
}

int64_t BatchTimes::size_for(int64_t rows) const {
  const size_t k = index_of(rows);
  return k < sizes_.size() ? sizes_[k] : largest();
}

void BatchTimes::measured(int64_t size, double us) {
  const size_t k = index_of(size);
  if (k < sizes_.size() && sizes_[k] == size) load_us_[k] = us;
}

void BatchTimes::seen(int64_t size, double us) {
  const size_t k = index_of(size);
  const double expected = of(size);
  if (k >= sizes_.size() || sizes_[k] != size || expected <= 0 || us <= 0) return;
  const double off = std::clamp(us / expected, 1 / kFurthest, kFurthest);
  all_ *= std::pow(off, kFollowAll);
  own_[k] = std::clamp(own_[k] * std::pow(off, kFollowOwn), 1 / kOwnMost, kOwnMost);
}

bool BatchTimes::is_measured(int64_t size) const {
  const size_t k = index_of(size);
  return k < sizes_.size() && sizes_[k] == size && load_us_[k] > 0;
}

double BatchTimes::of(int64_t size) const {
  int64_t below = 0, above = 0;
  double below_us = 0, above_us = 0;
  for (size_t k = 0; k < sizes_.size(); ++k) {
    if (load_us_[k] <= 0) continue;
    const double us = load_us_[k] * own_[k] * all_;
    if (sizes_[k] <= size) {
      below = sizes_[k];
      below_us = us;
    } else if (above == 0) {
      above = sizes_[k];
      above_us = us;
    }
  }
  const auto line = [](double x, double x0, double y0, double x1, double y1) {
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
  };
  if (below > 0 && above > 0)
    return line(static_cast<double>(size), static_cast<double>(below), below_us,
                static_cast<double>(above), above_us);
  if (below > 0) return below_us * static_cast<double>(size) / static_cast<double>(below);
  return above_us;
}

double BatchTimes::at_load(int64_t size) const {
  const size_t k = index_of(size);
  return k < sizes_.size() && sizes_[k] == size ? load_us_[k] : 0;
}

}  // namespace camshaft::batching
