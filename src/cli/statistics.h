// SPDX-License-Identifier: Apache-2.0
// Latency statistics as trtexec defines them, and the accuracy measures of two tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "camshaft/types.h"

namespace camshaft::cli {

// One timed query, in milliseconds on one clock.
struct QueryTimes {
  double start_enqueue = 0, end_enqueue = 0;
  double start_h2d = 0, end_h2d = 0;
  double start_compute = 0, end_compute = 0;
  double start_d2h = 0, end_d2h = 0;

  double enqueue() const { return end_enqueue - start_enqueue; }
  double h2d() const { return end_h2d - start_h2d; }
  double compute() const { return end_compute - start_compute; }
  double d2h() const { return end_d2h - start_d2h; }
  double latency() const { return h2d() + compute() + d2h(); }
};

struct Summary {
  double min = 0, max = 0, mean = 0, median = 0;
  double variation = 0;             // standard deviation over mean
  std::vector<double> percentiles;  // one per wanted percentile
};

// Sorted ascending, the element max(n - 1 - floor((1 - P/100) n), 0); P in [0, 100].
double percentile(const std::vector<double>& sorted, double p);
Summary summarize(std::vector<double> values, const std::vector<double>& percentiles);

// "90,95,99": every one in [0, 100].
Result<std::vector<double>> parse_percentiles(const std::string& text, const std::string& option);
std::string percent_text(double p);  // "99", "99.9"

// How far `actual` is from `reference`. NaN where the reference has none counts as infinitely far;
// equal infinities as equal.
struct Difference {
  int64_t elements = 0;
  int64_t outside = 0;      // elements with |a - r| > atol + rtol |r|
  double max_absolute = 0;  // lInf
  double max_relative = 0;  // of |a - r| / |r| where r ≠ 0
  double mean_absolute = 0;
  double mean_squared = 0;
  double cosine = 1;         // 1 for two zero vectors
  double max_reference = 0;  // largest |r|
};
Difference compare(const std::vector<double>& actual, const std::vector<double>& reference,
                   double atol, double rtol);

// The loss of --accuracyAlgorithm: l0 = share outside, l1 = mean |a - r|, l2 = mean squared, lInf =
// max, cos = 1 - cosine.
double accuracy_loss(const Difference& difference, const std::string& algorithm);

// Elements as doubles, whatever the type (64-bit integers may round).
std::vector<double> to_doubles(const TensorView& view);

}  // namespace camshaft::cli
