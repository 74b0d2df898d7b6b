// SPDX-License-Identifier: Apache-2.0
#include "inspect/profile.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace camshaft::inspect {
namespace {

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

void ProfileData::add(const LayerTime& time) {
  if (time.layer < 0 || static_cast<size_t>(time.layer) >= times_us_.size()) return;
  std::vector<double>& times = times_us_[static_cast<size_t>(time.layer)];
  int& last_run = last_run_[static_cast<size_t>(time.layer)];
  if (last_run == runs_)
    times.back() += time.microseconds;
  else
    times.push_back(time.microseconds);
  last_run = runs_;
}

void ProfileData::clear() {
  for (std::vector<double>& times : times_us_) times.clear();
  std::fill(last_run_.begin(), last_run_.end(), -1);
  runs_ = 0;
}

double ProfileData::total_ms() const {
  double total = 0;
  for (const std::vector<double>& times : times_us_) total += sum(times) / 1e3;
  return total;
}

std::vector<LayerProfile::Row> ProfileData::rows(double peak_gmacs) const {
  const double all_ms = total_ms();
  std::vector<LayerProfile::Row> rows;
  for (size_t k = 0; k < layers_.size(); ++k) {
    const std::vector<double>& times = times_us_[k];
    if (times.empty()) continue;
    const LayerInfo& layer = layers_[k];
    LayerProfile::Row row;
    row.layer = layer.index;
    row.name = layer.name;
    row.total_ms = sum(times) / 1e3;
    row.average_ms = row.total_ms / static_cast<double>(times.size());
    const double median_us = median(times);
    row.median_ms = median_us / 1e3;
    row.percentage = all_ms > 0 ? row.total_ms / all_ms * 100 : 0;
    if (median_us > 0) {
      if (layer.macs > 0) row.gmacs = layer.macs / median_us / 1e3;
      if (layer.io_bytes > 0) row.gbytes = layer.io_bytes / median_us / 1e3;
      if (peak_gmacs > 0) row.peak_percent = row.gmacs / (peak_gmacs * layer.peak_factor) * 100;
    }
    rows.push_back(row);
  }
  return rows;
}

std::string ProfileData::to_json() const {
  using Json = nlohmann::ordered_json;
  auto line = [](const Json& object) {
    return object.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::string out = "[\n  " + line(Json{{"count", runs_}});
  for (const LayerProfile::Row& row : rows(0)) {
    out += ",\n  " + line(Json{{"name", row.name},
                               {"timeMs", row.total_ms},
                               {"averageMs", row.average_ms},
                               {"medianMs", row.median_ms},
                               {"percentage", row.percentage}});
  }
  return out + "\n]\n";
}

std::string ProfileData::to_text() const {
  std::string out = fmt::format("=== Profile ({} iterations ) ===\n", runs_);
  out += fmt::format("{:>12} {:>12} {:>12} {:>8}   {}\n", "Time(ms)", "Avg.(ms)", "Median(ms)",
                     "Time(%)", "Layer");
  double average = 0;
  double medians = 0;
  for (const LayerProfile::Row& row : rows(0)) {
    average += row.average_ms;
    medians += row.median_ms;
    out += fmt::format("{:>12.2f} {:>12.4f} {:>12.4f} {:>8.1f}   {}\n", row.total_ms,
                       row.average_ms, row.median_ms, row.percentage, row.name);
  }
  return out + fmt::format("{:>12.2f} {:>12.4f} {:>12.4f} {:>8.1f}   Total\n", total_ms(), average,
                           medians, 100.0);
}

}  // namespace camshaft::inspect
