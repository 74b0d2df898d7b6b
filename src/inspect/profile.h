// SPDX-License-Identifier: Apache-2.0
// Per-layer times of many runs: totals, averages, medians, shares, and what of the machine they
// reach.
#pragma once

#include <string>
#include <vector>

#include "camshaft/inspector.h"

namespace camshaft::inspect {

double median(std::vector<double> values);  // of the middle pair when even; 0 for none

class ProfileData {
 public:
  explicit ProfileData(std::vector<LayerInfo> layers)
      : layers_(std::move(layers)), times_us_(layers_.size()), last_run_(layers_.size(), -1) {}

  // Times of one layer in one run are added up.
  void add(const LayerTime& time);
  void end_run() { ++runs_; }
  void clear();

  int runs() const { return runs_; }
  double total_ms() const;
  std::vector<LayerProfile::Row> rows(double peak_gmacs) const;
  std::string to_json() const;
  std::string to_text() const;

 private:
  std::vector<LayerInfo> layers_;
  std::vector<std::vector<double>> times_us_;  // per layer, one per run that ran it
  std::vector<int> last_run_;                  // of times_us_.back(), -1: none
  int runs_ = 0;
};

}  // namespace camshaft::inspect
