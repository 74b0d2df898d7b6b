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
      : layers_(std::move(layers)), times_(layers_.size()), inner_(layers_.size()) {}

  void add(const LayerTime& time);
  void end_run() { ++runs_; }
  void clear();

  int runs() const { return runs_; }
  double total_ms() const;
  std::vector<LayerProfile::Row> rows(double peak_gmacs) const;
  std::vector<LayerProfile::Row> inner_rows(int layer) const;
  std::string to_json() const;
  std::string to_text() const;

 private:
  // Of one layer: those of one run are added up.
  struct Times {
    std::vector<double> us;  // one per run that ran it
    int last_run = -1;       // of us.back(), -1: none
    int64_t calls = 0;

    void add(double microseconds, int run);
  };
  LayerProfile::Row row(const Times& times, const std::string& name, double all_ms) const;

  std::vector<LayerInfo> layers_;
  std::vector<Times> times_;               // per layer
  std::vector<std::vector<Times>> inner_;  // per layer those inside it; empty until there are times
  int runs_ = 0;
};

}  // namespace camshaft::inspect
