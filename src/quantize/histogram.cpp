// SPDX-License-Identifier: Apache-2.0
#include "quantize/histogram.h"

#include <algorithm>
#include <cmath>

namespace camshaft::quantize {

float Histogram::largest() const {
  return std::max(std::abs(minimum()), std::abs(maximum()));
}

void Histogram::make_room(float largest) {
  if (counts_.empty()) {
    counts_.assign(kBins, 0);
    counts_[0] = zeros_;
    width_ = static_cast<double>(largest) / kBins;
    if (width_ < 1e-42) width_ = 1e-42;  // of denormals: the inverse must stay finite
  }
  while (static_cast<double>(largest) > width_ * kBins) {
    for (size_t k = 0; k < kBins / 2; ++k) counts_[k] = counts_[2 * k] + counts_[2 * k + 1];
    std::fill(counts_.begin() + kBins / 2, counts_.end(), 0);
    width_ *= 2;
  }
}

void Histogram::add(std::span<const float> values) {
  float low = INFINITY, high = -INFINITY;
  uint64_t finite = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    ++finite;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  not_finite_ += values.size() - finite;
  if (finite == 0) return;
  minimum_ = count_ > 0 ? std::min(minimum_, low) : low;
  maximum_ = count_ > 0 ? std::max(maximum_, high) : high;
  count_ += finite;
  if (largest() == 0) {
    zeros_ += finite;
    return;
  }
  make_room(largest());
  const double inverse = 1 / width_;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    const auto bin = static_cast<size_t>(std::abs(static_cast<double>(value)) * inverse);
    ++counts_[std::min(bin, kBins - 1)];  // the largest value itself lies on the upper edge
  }
}

Histogram::Bins Histogram::bins(size_t most) const {
  if (counts_.empty()) return {{zeros_}, 0};
  size_t used = kBins;
  while (used > 1 && counts_[used - 1] == 0) --used;
  size_t merge = 1;
  while ((used + merge - 1) / merge > most) merge *= 2;
  Bins bins{std::vector<uint64_t>((used + merge - 1) / merge), width_ * static_cast<double>(merge)};
  for (size_t k = 0; k < used; ++k) bins.counts[k / merge] += counts_[k];
  return bins;
}

}  // namespace camshaft::quantize
