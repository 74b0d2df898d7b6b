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

void ProfileData::Times::add(double microseconds, int run) {
  if (last_run == run)
    us.back() += microseconds;
  else
    us.push_back(microseconds);
  last_run = run;
  ++calls;
}

void ProfileData::add(const LayerTime& time) {
  if (time.layer < 0 || static_cast<size_t>(time.layer) >= times_.size()) return;
  const auto layer = static_cast<size_t>(time.layer);
  if (time.inner < 0) {
    times_[layer].add(time.microseconds, runs_);
    return;
  }
  inner_[layer].resize(layers_[layer].inner.size());
  if (static_cast<size_t>(time.inner) < inner_[layer].size())
    inner_[layer][static_cast<size_t>(time.inner)].add(time.microseconds, runs_);
}

void ProfileData::clear() {
  for (Times& times : times_) times = {};
  for (std::vector<Times>& inner : inner_) inner.clear();
  runs_ = 0;
}

double ProfileData::total_ms() const {
  double total = 0;
  for (const Times& times : times_) total += sum(times.us) / 1e3;
  return total;
}

LayerProfile::Row ProfileData::row(const Times& times, const std::string& name,
                                   double all_ms) const {
  LayerProfile::Row row;
  row.name = name;
  row.calls = static_cast<double>(times.calls) / static_cast<double>(times.us.size());
  row.total_ms = sum(times.us) / 1e3;
  row.average_ms = row.total_ms / static_cast<double>(times.us.size());
  row.median_ms = median(times.us) / 1e3;
  row.percentage = all_ms > 0 ? row.total_ms / all_ms * 100 : 0;
  return row;
}

std::vector<LayerProfile::Row> ProfileData::rows(double peak_gmacs) const {
  const double all_ms = total_ms();
  std::vector<LayerProfile::Row> rows;
  for (size_t k = 0; k < layers_.size(); ++k) {
    if (times_[k].us.empty()) continue;
    const LayerInfo& layer = layers_[k];
    LayerProfile::Row row = this->row(times_[k], layer.name, all_ms);
    row.layer = layer.index;
    if (row.median_ms > 0) {
      if (layer.macs > 0) row.gmacs = layer.macs / row.median_ms / 1e6;
      if (layer.io_bytes > 0) row.gbytes = layer.io_bytes / row.median_ms / 1e6;
      if (peak_gmacs > 0) row.peak_percent = row.gmacs / (peak_gmacs * layer.peak_factor) * 100;
    }
    rows.push_back(row);
  }
  return rows;
}

std::vector<LayerProfile::Row> ProfileData::inner_rows(int layer) const {
  std::vector<LayerProfile::Row> rows;
  if (layer < 0 || static_cast<size_t>(layer) >= inner_.size()) return rows;
  const std::vector<Times>& inner = inner_[static_cast<size_t>(layer)];
  for (size_t k = 0; k < inner.size(); ++k) {
    if (inner[k].us.empty()) continue;
    rows.push_back(row(inner[k], layers_[static_cast<size_t>(layer)].inner[k].name, total_ms()));
    rows.back().layer = layer;
    rows.back().inner = static_cast<int>(k);
  }
  return rows;
}

namespace {

using Json = nlohmann::ordered_json;

Json row_json(const LayerProfile::Row& row) {
  Json object = {{"name", row.name},
                 {"timeMs", row.total_ms},
                 {"averageMs", row.average_ms},
                 {"medianMs", row.median_ms},
                 {"percentage", row.percentage}};
  if (row.inner >= 0) object["calls"] = row.calls;
  return object;
}

}  // namespace

std::string ProfileData::to_json() const {
  auto line = [](const Json& object) {
    return object.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::string out = "[\n  " + line(Json{{"count", runs_}});
  for (const LayerProfile::Row& row : rows(0)) {
    Json object = row_json(row);
    for (const LayerProfile::Row& inner : inner_rows(row.layer))
      object["layers"].push_back(row_json(inner));
    out += ",\n  " + line(object);
  }
  return out + "\n]\n";
}

std::string ProfileData::to_text() const {
  std::string out = fmt::format("=== Profile ({} iterations ) ===\n", runs_);
  out += fmt::format("{:>12} {:>12} {:>12} {:>8}   {}\n", "Time(ms)", "Avg.(ms)", "Median(ms)",
                     "Time(%)", "Layer");
  double average = 0;
  double medians = 0;
  const auto add_line = [&out](const LayerProfile::Row& row, const std::string& name) {
    out += fmt::format("{:>12.2f} {:>12.4f} {:>12.4f} {:>8.1f}   {}\n", row.total_ms,
                       row.average_ms, row.median_ms, row.percentage, name);
  };
  for (const LayerProfile::Row& row : rows(0)) {
    average += row.average_ms;
    medians += row.median_ms;
    add_line(row, row.name);
    const std::vector<InnerLayer>& inside = layers_[static_cast<size_t>(row.layer)].inner;
    for (const LayerProfile::Row& inner : inner_rows(row.layer))
      add_line(inner, indented_name(inside[static_cast<size_t>(inner.inner)], inner.calls));
  }
  return out + fmt::format("{:>12.2f} {:>12.4f} {:>12.4f} {:>8.1f}   Total\n", total_ms(), average,
                           medians, 100.0);
}

}  // namespace camshaft::inspect
