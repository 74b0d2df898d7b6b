// SPDX-License-Identifier: Apache-2.0
#include "trace/insights.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>

#include <fmt/format.h>

#include "trace/findings.h"

namespace camshaft::trace {
namespace {

constexpr double kQueuedGapUs =
    1;  // a gap this short lies between two queued kernels, whoever launched them

double percentile(std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  return sorted[std::min(sorted.size() - 1,
                         static_cast<size_t>(share * static_cast<double>(sorted.size())))];
}

LaunchStats launch_stats(const Profile& profile) {
  const Trace& trace = profile.trace;
  const Clock& clock = profile.clock;
  LaunchStats stats;
  std::vector<uint32_t> first_device(trace.events.size(), kNoRow);
  for (const uint32_t device : profile.launches.devices) {
    const uint32_t runtime = profile.launches.runtime_of_device[device];
    const double length = clock.to_us(event_length(trace, clock, device));
    const bool is_kernel = trace.events.kind[device] == EventKind::kKernel;
    const bool is_short = length < kShortKernelUs;
    if (is_kernel) {
      ++stats.kernels;
      if (is_short) ++stats.short_kernels, stats.short_kernel_us += length;
    }
    if (runtime == kNoRow) continue;
    if (first_device[runtime] == kNoRow) first_device[runtime] = device;
    if (!is_kernel) continue;
    if (is_graph_launch(trace.name_of(runtime))) {
      ++stats.graph_kernels, stats.graph_kernel_us += length;
      continue;
    }
    ++stats.single_kernels;
    if (is_short) ++stats.single_short_kernels;
    if (length < clock.to_us(event_length(trace, clock, runtime))) ++stats.launch_bound_kernels;
  }
  std::vector<double> delays;
  for (const uint32_t runtime : profile.launches.runtimes) {
    if (is_graph_launch(trace.name_of(runtime))) ++stats.graph_launches;
    if (first_device[runtime] == kNoRow) continue;
    ++stats.launches;
    stats.call_us += clock.to_us(event_length(trace, clock, runtime));
    delays.push_back(static_cast<double>(trace.events.start_ns[first_device[runtime]] -
                                         trace.events.start_ns[runtime]) /
                     1000);
  }
  std::sort(delays.begin(), delays.end());
  if (delays.empty()) return stats;
  stats.delay_mean_us =
      std::accumulate(delays.begin(), delays.end(), 0.0) / static_cast<double>(delays.size());
  stats.delay_median_us = percentile(delays, 0.5);
  stats.delay_p95_us = percentile(delays, 0.95);
  stats.delay_max_us = delays.back();
  return stats;
}

struct DeviceRun {
  Ticks start, end;
  uint32_t event;
};

// The operator or annotation nearest to the top that encloses a call: what a reader knows the work
// by.
std::string cause_of(const Profile& profile, uint32_t runtime) {
  uint32_t node = profile.launches.node_of_runtime[runtime];
  if (node == kNoRow) return launch_site(profile.trace, profile.launches, runtime);
  std::string name;
  for (; node != kNoRow; node = profile.forest.nodes[node].parent) {
    const Node& at = profile.forest.nodes[node];
    if (at.kind == NodeKind::kRoot || at.kind == NodeKind::kStep) break;
    if (at.kind == NodeKind::kModule && !name.empty()) break;
    name = profile.trace.name_of(at.event);
  }
  return name.empty() ? "host code outside operators" : name;
}

class IdleTime {
 public:
  explicit IdleTime(const Profile& profile) : profile_(profile) {}

  void split(Insights& insights) {
    const Ranges windows = profile_.steps.windows();
    std::map<int64_t, std::vector<DeviceRun>> runs;
    for (const uint32_t device : profile_.launches.devices) {
      const int64_t id = profile_.trace.device[profile_.trace.events.detail[device]].device;
      const Ticks start = profile_.clock.start(profile_.trace.events.start_ns[device]);
      if (id >= 0)
        runs[id].push_back(
            {start, start + event_length(profile_.trace, profile_.clock, device), device});
    }
    for (auto& [id, list] : runs) {
      IdleSplit split;
      split.device = id;
      auto first = list.cbegin();
      for (const Range& window : windows) add_window(window, list, first, split);
      take_causes(split);
      insights.idle.push_back(std::move(split));
    }
    for (auto& [op, cause] : causes_) {
      cause.op = op;
      insights.causes.push_back(cause);
    }
    std::sort(insights.causes.begin(), insights.causes.end(),
              [](const IdleCause& a, const IdleCause& b) {
                return a.idle_us != b.idle_us ? a.idle_us > b.idle_us : a.op < b.op;
              });
    if (insights.causes.size() > 50) insights.causes.resize(50);
  }

 private:
  // `first`: in front of it every run has ended before this window.
  void add_window(const Range& window, const std::vector<DeviceRun>& runs,
                  std::vector<DeviceRun>::const_iterator& first, IdleSplit& split) {
    const Clock& clock = profile_.clock;
    split.span_us += clock.to_us(std::max(0.0, window.end - window.start));
    while (first != runs.end() && first->end <= window.start) ++first;
    Ticks reached = window.start;
    bool any = false;
    for (auto run = first; run != runs.end() && run->start < window.end; ++run) {
      const Ticks start = std::clamp(run->start, window.start, window.end),
                  end = std::clamp(run->end, window.start, window.end);
      if (start > reached) add_gap(*run, reached, start, any, split);
      split.busy_us += clock.to_us(std::max(0.0, end - std::max(start, reached)));
      reached = std::max(reached, end);
      any = any || end > window.start;
    }
    split.other_us += clock.to_us(std::max(0.0, window.end - reached));
  }

  void add_gap(const DeviceRun& next, Ticks from, Ticks to, bool any, IdleSplit& split) {
    const double gap = profile_.clock.to_us(to - from);
    const uint32_t runtime = profile_.launches.runtime_of_device[next.event];
    if (runtime == kNoRow) {
      (any && gap <= kQueuedGapUs ? split.kernel_wait_us : split.other_us) += gap;
      return;
    }
    // The host is at it until its call returns: the first launch of a kernel may load its code.
    const Ticks launched = profile_.clock.start(profile_.trace.events.start_ns[runtime]) +
                           event_length(profile_.trace, profile_.clock, runtime);
    if (launched <= from) {
      split.kernel_wait_us += gap;
      return;
    }
    const double host = profile_.clock.to_us(std::min(launched, to) - from);
    split.host_wait_us += host;
    split.kernel_wait_us += gap - host;
    IdleCause& cause = of_device_[cause_of(profile_, runtime)];
    cause.idle_us += host;
    ++cause.gaps;
  }

  void take_causes(IdleSplit& split) {
    for (const auto& [op, cause] : of_device_) {
      if (cause.idle_us > split.longest_us ||
          (cause.idle_us == split.longest_us && op < split.longest)) {
        split.longest = op;
        split.longest_us = cause.idle_us;
      }
      causes_[op].idle_us += cause.idle_us;
      causes_[op].gaps += cause.gaps;
    }
    of_device_.clear();
  }

  const Profile& profile_;
  std::unordered_map<std::string, IdleCause> of_device_, causes_;
};

std::vector<CollectiveUse> collective_uses(const Profile& profile) {
  const Trace& trace = profile.trace;
  const Ranges& computing = profile.breakdown.by_part[static_cast<int>(Part::kKernel)];
  std::map<std::pair<std::string, std::string>, CollectiveUse> uses;
  for (const uint32_t device : profile.launches.devices) {
    if (!profile.collectives.device_is_communication[device]) continue;
    const DeviceDetail& detail = trace.device[trace.events.detail[device]];
    std::string name(trace.name_of(device)), group;
    const CollectiveDetail* collective =
        detail.collective == kNoRow ? nullptr : &trace.collectives[detail.collective];
    if (collective != nullptr) {
      name = trace.strings[collective->name];
      group = trace.strings[collective->group_description != 0 ? collective->group_description
                                                               : collective->group];
    }
    CollectiveUse& use = uses[{name, group}];
    use.name = name;
    use.group = group;
    ++use.calls;
    const Ticks start = profile.clock.start(trace.events.start_ns[device]);
    const Ticks end = start + event_length(trace, profile.clock, device);
    use.total_us += profile.clock.to_us(end - start);
    use.exposed_us += profile.clock.to_us(end - start - total_within(computing, {start, end}));
    if (collective == nullptr) continue;
    use.group_size = std::max(use.group_size, collective->group_size);
    use.bytes += std::max(collective->in_elements, collective->out_elements) *
                 element_bytes_of(trace.strings[collective->dtype]);
  }
  std::vector<CollectiveUse> list;
  for (auto& [key, use] : uses) list.push_back(std::move(use));
  std::sort(list.begin(), list.end(),
            [](const CollectiveUse& a, const CollectiveUse& b) { return a.total_us > b.total_us; });
  return list;
}

// What an allocation was for, by the nodes around it.
const char* memory_purpose(const Profile& profile, uint32_t node) {
  bool in_module = false, in_operator = false;
  for (; node != kNoRow; node = profile.forest.nodes[node].parent) {
    const Node& at = profile.forest.nodes[node];
    if (at.kind == NodeKind::kDataLoader) return "data";
    if (at.kind == NodeKind::kOptimizer) return "optimizer";
    if (at.kind == NodeKind::kModule) in_module = true;
    if (at.kind != NodeKind::kOperator) continue;
    in_operator = true;
    const std::string_view name = profile.trace.name_of(at.event);
    if (name.substr(0, 10) == "autograd::" || name.substr(0, 17) == "torch::autograd::" ||
        name.find("Backward") != name.npos)
      return "backward";
    if (name.substr(0, 10) == "Optimizer.") return "optimizer";
  }
  return in_module || in_operator ? "forward" : "outside operators";
}

std::vector<MemoryUse> memory_uses(const Profile& profile) {
  const MemoryColumns& memory = profile.trace.memory;
  struct State {
    int64_t peak = 0, reserved = 0;
    size_t peak_record = 0;
    bool has_totals = false;
  };
  std::vector<State> states(profile.memory.devices.size());
  for (size_t record = 0; record < memory.size(); ++record) {
    const uint16_t device = profile.memory.device_of_record[record];
    if (device == kNoDevice || memory.total_allocated[record] == kNoId) continue;
    State& state = states[device];
    state.has_totals = true;
    if (memory.total_reserved[record] != kNoId)
      state.reserved = std::max(state.reserved, memory.total_reserved[record]);
    if (memory.total_allocated[record] <= state.peak) continue;
    state.peak = memory.total_allocated[record];
    state.peak_record = record;
  }
  std::vector<MemoryUse> uses;
  for (uint16_t device = 0; device < states.size(); ++device) {
    if (!states[device].has_totals) continue;
    MemoryUse use;
    use.device = profile.memory.devices[device];
    use.peak = states[device].peak;
    use.peak_reserved = states[device].reserved;
    const size_t digits = use.device.find_first_of("0123456789");
    const size_t id = digits == use.device.npos
                          ? ~size_t{0}
                          : std::strtoul(use.device.c_str() + digits, nullptr, 10);
    if (id < profile.trace.device_properties.size())
      use.capacity = profile.trace.device_properties[id].memory_bytes;
    std::unordered_map<uint64_t, size_t> live;  // address → record
    for (size_t record = 0; record <= states[device].peak_record; ++record) {
      if (profile.memory.device_of_record[record] != device || memory.address[record] == 0)
        continue;
      if (memory.bytes[record] > 0)
        live[memory.address[record]] = record;
      else
        live.erase(memory.address[record]);
    }
    std::map<std::string, int64_t> purposes;
    int64_t known = 0;
    for (const auto& [address, record] : live) {
      purposes[memory_purpose(profile, profile.memory.node_of_record[record])] +=
          memory.bytes[record];
      known += memory.bytes[record];
    }
    if (use.peak > known) purposes["before the trace"] = use.peak - known;
    use.at_peak.assign(purposes.begin(), purposes.end());
    std::sort(use.at_peak.begin(), use.at_peak.end(),
              [](const auto& a, const auto& b) { return a.second > b.second; });
    uses.push_back(std::move(use));
  }
  return uses;
}

}  // namespace

Insights find_insights(const Profile& profile) {
  Insights insights;
  insights.launches = launch_stats(profile);
  IdleTime(profile).split(insights);
  insights.collectives = collective_uses(profile);
  insights.memory = memory_uses(profile);
  insights.critical = find_critical_path(profile);
  insights.findings = find_findings(profile, insights);
  return insights;
}

std::vector<std::pair<std::string, double>> metrics(const Profile& profile,
                                                    const Insights& insights) {
  std::vector<std::pair<std::string, double>> list;
  const auto add = [&](std::string name, double value) {
    list.emplace_back(std::move(name), value);
  };
  const Clock& clock = profile.clock;
  add("events", static_cast<double>(profile.trace.events.size()));
  add("steps", static_cast<double>(profile.steps.list.size()));
  add("step.average_us", clock.to_us(profile.breakdown.average_step));
  for (int k = 0; k < kPartCount && !profile.breakdown.average.empty(); ++k) {
    std::string name = part_name(static_cast<Part>(k));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return c == ' ' ? '_' : std::tolower(c); });
    add("step." + name + "_us", clock.to_us(profile.breakdown.average[k]));
    if (profile.breakdown.average_step > 0)
      add("step." + name + "_percent",
          100 * profile.breakdown.average[k] / profile.breakdown.average_step);
  }
  for (const DeviceUse& use : profile.devices.devices) {
    const std::string device = fmt::format("gpu{}.", use.device);
    add(device + "utilization_percent", 100 * use.utilization);
    if (use.sm_efficiency) add(device + "sm_efficiency_percent", 100 * *use.sm_efficiency);
    if (use.occupancy) add(device + "occupancy_percent", *use.occupancy);
    add(device + "tensor_core_percent", 100 * use.matrix_share);
    add(device + "tensor_core_unknown_percent", 100 * use.matrix_unknown_share);
  }
  for (const IdleSplit& split : insights.idle) {
    const std::string device = fmt::format("gpu{}.", split.device);
    add(device + "idle_host_us", split.host_wait_us);
    add(device + "idle_kernel_us", split.kernel_wait_us);
    add(device + "idle_other_us", split.other_us);
  }
  add("kernels.calls", static_cast<double>(insights.launches.kernels));
  add("kernels.total_us", clock.to_us(profile.kernels.total));
  add("kernels.unattributed_us", clock.to_us(profile.kernels.unattributed_total));
  add("kernels.unrecorded_us", clock.to_us(profile.kernels.unrecorded_total));
  add("kernels.short", static_cast<double>(insights.launches.short_kernels));
  add("launches.calls", static_cast<double>(insights.launches.launches));
  add("launches.delay_median_us", insights.launches.delay_median_us);
  add("launches.delay_p95_us", insights.launches.delay_p95_us);
  add("launches.graphs", static_cast<double>(insights.launches.graph_launches));
  double communication = 0, exposed = 0;
  for (const CollectiveUse& use : insights.collectives)
    communication += use.total_us, exposed += use.exposed_us;
  add("communication.total_us", communication);
  add("communication.exposed_us", exposed);
  for (const MemoryUse& use : insights.memory) {
    std::string name = use.device;
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    add("memory." + name + ".peak_bytes", static_cast<double>(use.peak));
    for (const auto& [purpose, bytes] : use.at_peak) {
      std::string part = purpose;
      std::replace(part.begin(), part.end(), ' ', '_');
      add("memory." + name + ".peak_" + part + "_bytes", static_cast<double>(bytes));
    }
  }
  if (const CriticalPath& path = insights.critical; path.span_us > 0) {
    add("critical.kernel_percent", 100 * path.kernel_us / path.span_us);
    add("critical.launch_percent", 100 * path.launch_us / path.span_us);
    add("critical.queue_percent", 100 * path.queue_us / path.span_us);
    add("critical.host_percent", 100 * path.host_us / path.span_us);
  }
  add("findings", static_cast<double>(insights.findings.size()));
  return list;
}

}  // namespace camshaft::trace
