// SPDX-License-Identifier: Apache-2.0
// The three memory answers, in the units the request asks for.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "trace/views.h"

namespace camshaft::trace {
namespace {

struct Unit {
  std::string_view name;
  double factor;  // from bytes or microseconds
};
constexpr Unit kMemoryUnits[] = {
    {"B", 1},          {"KB", 1.0 / 1024},     {"MB", 1.0 / (1 << 20)}, {"GB", 1.0 / (1 << 30)},
    {"K", 1.0 / 1024}, {"M", 1.0 / (1 << 20)}, {"G", 1.0 / (1 << 30)}};
constexpr Unit kTimeUnits[] = {{"us", 1}, {"ms", 1e-3}, {"s", 1e-6}};

template <size_t N>
const Unit* find_unit(const Unit (&units)[N], std::string_view name) {
  for (const Unit& unit : units)
    if (unit.name == name) return &unit;
  return nullptr;
}

double memory_factor(const std::string& name) {
  return find_unit(kMemoryUnits, name)->factor;
}
double time_factor(const std::string& name) {
  return find_unit(kTimeUnits, name)->factor;
}

// Two places, or one significant digit of what is smaller than that.
double display(double value) {
  const double size = std::abs(value);
  if (size >= 0.01 || size == 0) return round_places(value, 2);
  return std::strtod(fmt::format("{:.0e}", value).c_str(), nullptr);
}

struct TypedColumn {
  std::string name;
  const char* type;
  const char* tooltip;  // nullptr: no such key
};

void write_columns(JsonWriter& json, const std::vector<TypedColumn>& columns) {
  json.key("columns").begin_array();
  for (const TypedColumn& column : columns) {
    json.begin_object().text("name", column.name).text("type", column.type);
    if (column.tooltip != nullptr) json.text("tooltip", column.tooltip);
    json.end_object();
  }
  json.end_array();
}

// The first device beside the CPU that has anything to show.
template <class IsShown>
std::string default_device(const Profile& profile, const IsShown& is_shown) {
  for (size_t k = 0; k < profile.memory.devices.size(); ++k)
    if (profile.memory.devices[k] != "CPU" && is_shown(k)) return profile.memory.devices[k];
  return "CPU";
}

std::string unit_or(const std::string& name, const char* fallback) {
  return name.empty() ? fallback : name;
}

void write_time(JsonWriter& json, const Profile& profile, const std::optional<Ticks>& time,
                double factor) {
  if (!time)
    json.null();
  else
    json.real(display(profile.clock.to_us(*time - profile.first_time) * factor));
}

}  // namespace

bool known_metrics(const MemoryRequest& request) {
  return find_unit(kTimeUnits, request.time_metric) != nullptr &&
         (request.memory_metric.empty() ||
          find_unit(kMemoryUnits, request.memory_metric) != nullptr);
}

std::string memory_stats_json(const Profile& profile, const MemoryRequest& request) {
  const auto tables = memory_stats(profile.trace, profile.clock, profile.semantics, profile.forest,
                                   profile.memory, moved_away(profile), request.window);
  const std::string unit = unit_or(request.memory_metric, "KB");
  const double factor = memory_factor(unit);
  const auto with_unit = [&](const char* name) { return fmt::format("{} ({})", name, unit); };
  JsonWriter json;
  json.begin_object().key("metadata").begin_object().text("title", "Memory View");
  json.text("default_device",
            default_device(profile, [&](size_t k) { return !tables[k].empty(); }));
  json.text("search", "Operator Name").text("sort", with_unit("Self Size Increase")).end_object();
  write_columns(json, {{"Operator Name", "string", nullptr},
                       {"Calls", "number", "# of calls of the operator."},
                       {with_unit("Size Increase"), "number",
                        "The memory increase size include all children operators."},
                       {with_unit("Self Size Increase"), "number",
                        "The memory increase size associated with the operator itself."},
                       {"Allocation Count", "number",
                        "The allocation count including all chidren operators."},
                       {"Self Allocation Count", "number",
                        "The allocation count belonging to the operator itself."},
                       {with_unit("Allocation Size"), "number",
                        "The allocation size including all children operators."},
                       {with_unit("Self Allocation Size"), "number",
                        "The allocation size belonging to the operator itself.\nIt will sum up all "
                        "allocation bytes "
                        "without considering the memory free."}});
  json.key("rows").begin_object();
  for (size_t device = 0; device < tables.size(); ++device) {
    if (tables[device].empty()) continue;
    json.key(profile.memory.devices[device]).begin_array();
    for (const MemoryStat& stat : tables[device]) {
      const auto size = [&](int64_t bytes) {
        json.real(display(static_cast<double>(bytes) * factor));
      };
      json.begin_array().text(profile.trace.strings[stat.name]).integer(stat.calls);
      size(stat.increase);
      size(stat.self_increase);
      json.integer(stat.allocations).integer(stat.self_allocations);
      size(stat.allocated);
      size(stat.self_allocated);
      json.end_array();
    }
    json.end_array();
  }
  json.end_object().end_object();
  return json.take();
}

std::string memory_curve_json(const Profile& profile, const MemoryRequest& request) {
  const std::vector<MemoryCurve> curves =
      memory_curves(profile.trace, profile.clock, profile.memory);
  const std::string unit = unit_or(request.memory_metric, "MB");
  const double bytes = memory_factor(unit), time = time_factor(request.time_metric);
  std::vector<std::string> devices;
  std::string chosen = "CPU";
  for (const MemoryCurve& curve : curves) {
    devices.push_back(profile.memory.devices[curve.device]);
    if (chosen == "CPU") chosen = devices.back();
  }
  std::sort(devices.begin(), devices.end());
  JsonWriter json;
  json.begin_object()
      .key("metadata")
      .begin_object()
      .text("default_device", chosen)
      .key("devices")
      .begin_array();
  for (const std::string& device : devices) json.text(device);
  json.end_array().key("peaks").begin_object();
  for (const MemoryCurve& curve : curves)
    json.text(
        profile.memory.devices[curve.device],
        fmt::format("Peak Memory Usage: {:.1f}{}", static_cast<double>(curve.peak) * bytes, unit));
  json.end_object().key("totals").begin_object();
  if (!profile.semantics.loses())  // the original meant to say the capacity, but never does
    for (const MemoryCurve& curve : curves) {
      const std::string& name = profile.memory.devices[curve.device];
      const size_t digits = name.find_first_of("0123456789");
      const size_t id =
          digits == name.npos ? ~size_t{0} : std::strtoul(name.c_str() + digits, nullptr, 10);
      if (name == "CPU" || id >= profile.trace.device_properties.size()) continue;
      json.real(name,
                static_cast<double>(profile.trace.device_properties[id].memory_bytes) * bytes);
    }
  json.end_object();
  write(json.key("first_ts"), profile.clock.point(profile.first_time));
  json.text("time_metric", request.time_metric).text("memory_metric", unit);
  json.real("time_factor", time).real("memory_factor", bytes).end_object();
  write_columns(json, {{fmt::format("Time ({})", request.time_metric), "number",
                        "Time since profiler starts."},
                       {fmt::format("Allocated ({})", unit), "number", "Total memory in use."},
                       {fmt::format("Reserved ({})", unit), "number",
                        "Total reserved memory by allocator, both used and unused."}});
  json.key("rows").begin_object();
  for (const MemoryCurve& curve : curves) {
    json.key(profile.memory.devices[curve.device]).begin_array();
    for (const CurvePoint& point : curve.points)
      json.begin_array()
          .real(profile.clock.to_us(point.time - profile.first_time) * time)
          .real(point.allocated * bytes)
          .real(point.reserved * bytes)
          .end_array();
    json.end_array();
  }
  json.end_object().end_object();
  return json.take();
}

std::string memory_events_json(const Profile& profile, const MemoryRequest& request) {
  const auto lists = memory_events(profile.trace, profile.clock, profile.semantics, profile.forest,
                                   profile.memory, moved_away(profile), request.window);
  const std::string unit = unit_or(request.memory_metric, "KB");
  const double bytes = memory_factor(unit), time = time_factor(request.time_metric);
  JsonWriter json;
  json.begin_object().key("metadata").begin_object().text("title", "Memory Events");
  json.text("default_device", default_device(profile, [&](size_t k) { return !lists[k].empty(); }))
      .end_object();
  const auto timed = [&](const char* name) {
    return fmt::format("{} ({})", name, request.time_metric);
  };
  write_columns(json, {{"Operator", "string", ""},
                       {fmt::format("Size ({})", unit), "number", ""},
                       {timed("Allocation Time"), "number", ""},
                       {timed("Release Time"), "number", ""},
                       {timed("Duration"), "number", ""}});
  json.key("rows").begin_object();
  for (size_t device = 0; device < lists.size(); ++device) {
    if (lists[device].empty()) continue;
    json.key(profile.memory.devices[device]).begin_array();
    for (const Allocation& event : lists[device]) {
      json.begin_array().text(event.op).real(display(static_cast<double>(event.bytes) * bytes));
      write_time(json, profile, event.allocated, time);
      write_time(json, profile, event.released, time);
      if (event.allocated && event.released)
        json.real(display(profile.clock.to_us(*event.released - *event.allocated) * time));
      else
        json.null();
      json.end_array();
    }
    json.end_array();
  }
  json.end_object().end_object();
  return json.take();
}

}  // namespace camshaft::trace
