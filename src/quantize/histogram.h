// SPDX-License-Identifier: Apache-2.0
// The magnitudes one tensor took over all calibration samples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace camshaft::quantize {

// Counts |x| in bins of equal width. The range doubles (neighbouring bins are merged) whenever a
// sample exceeds it, so one pass over the data is enough and at least half of the bins are in use.
class Histogram {
 public:
  static constexpr size_t kBins = 8192;

  void add(std::span<const float> values);

  uint64_t count() const { return count_; }            // finite values
  uint64_t not_finite() const { return not_finite_; }  // NaN and infinities, counted nowhere else
  float minimum() const { return count_ > 0 ? minimum_ : 0; }
  float maximum() const { return count_ > 0 ? maximum_ : 0; }
  float largest() const;  // of |x|
  double bin_width() const { return width_; }
  // Up to the bin of the largest value. At most `most` bins: neighbours are merged until they fit.
  struct Bins {
    std::vector<uint64_t> counts;
    double width = 0;
  };
  Bins bins(size_t most = kBins) const;

 private:
  void make_room(float largest);

  std::vector<uint64_t> counts_;  // empty while all values were zero
  double width_ = 0;
  uint64_t count_ = 0, zeros_ = 0, not_finite_ = 0;
  float minimum_ = 0, maximum_ = 0;
};

}  // namespace camshaft::quantize
