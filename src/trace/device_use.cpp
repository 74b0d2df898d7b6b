// SPDX-License-Identifier: Apache-2.0
// Utilization, SM efficiency and occupancy per device, and how much of its time Tensor Cores
// worked.
#include <algorithm>
#include <cmath>
#include <map>

#include "trace/kernels.h"

namespace camshaft::trace {
namespace {

constexpr double kResidue = 1e-9;  // what subtracting a sum's parts leaves over

struct KernelRun {
  Ticks start = 0, end = 0;
  double blocks = -1, occupancy = -1;
};

// A running sum of blocks per SM; each stretch is worth at most 1.
std::vector<CounterPoint> efficiency_stretches(const std::vector<KernelRun>& runs, double least) {
  struct Edge {
    Ticks time;
    bool is_end;
    double blocks;
  };
  std::vector<Edge> edges;
  for (const KernelRun& run : runs) {
    if (run.blocks <= 0) continue;
    edges.push_back({run.start, false, run.blocks});
    edges.push_back({run.end, true, -run.blocks});
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    return a.time != b.time ? a.time < b.time : a.is_end < b.is_end;
  });
  std::vector<CounterPoint> stretches;
  double sum = 0;
  Ticks previous = 0;
  for (const Edge& edge : edges) {
    if (sum > least && edge.time > previous)
      stretches.push_back({previous, edge.time, std::min(sum, 1.0)});
    sum += edge.blocks;
    previous = edge.time;
  }
  return stretches;
}

// Calls `visit` with the length of each part of [start, end) inside the windows.
template <class Visit>
void for_each_overlap(const Ranges& windows, Ticks start, Ticks end, const Visit& visit) {
  auto window = std::partition_point(windows.begin(), windows.end(),
                                     [&](const Range& known) { return known.end <= start; });
  for (; window != windows.end() && window->start < end; ++window) {
    const Ticks from = std::max(start, window->start), to = std::min(end, window->end);
    if (from < to) visit(to - from);
  }
}

std::optional<double> mean_efficiency(const std::vector<CounterPoint>& stretches,
                                      const Ranges& windows) {
  double weighted = 0;
  bool any = false;
  for (const CounterPoint& stretch : stretches)
    for_each_overlap(windows, stretch.start, stretch.end, [&](Ticks length) {
      any = true;
      weighted += stretch.value * length;
    });
  if (!any || !(total(windows) > 0)) return std::nullopt;
  return weighted / total(windows);
}

std::optional<double> mean_occupancy(const std::vector<KernelRun>& runs, const Ranges& windows) {
  double weighted = 0, weight = 0;
  for (const KernelRun& run : runs) {
    if (run.occupancy < 0) continue;
    for_each_overlap(windows, run.start, run.end, [&](Ticks length) {
      weighted += run.occupancy * length;
      weight += length;
    });
  }
  if (weight <= 0) return std::nullopt;
  return weighted / weight;
}

// The profiled window: the profiler's own span event, else from the first event to the end of the
// last.
Range global_range(const Trace& trace, const Clock& clock) {
  Range range;
  bool any = false;
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    const Ticks start = clock.start(trace.events.start_ns[event]);
    const Ticks end = start + clock.duration(trace.events.duration_ns[event]);
    if (trace.events.kind[event] == EventKind::kSpan &&
        trace.name_of(event) == "PyTorch Profiler (0)")
      return {start, end};
    const EventKind kind = trace.events.kind[event];
    if (kind == EventKind::kOther || kind == EventKind::kDriver) continue;
    range.start = any ? std::min(range.start, start) : start;
    range.end = any ? std::max(range.end, end) : end;
    any = true;
  }
  for (size_t k = 0; k < trace.memory.size(); ++k) {
    const Ticks time = clock.start(trace.memory.time_ns[k]);
    range.start = any ? std::min(range.start, time) : time;
    range.end = any ? std::max(range.end, time) : time;
    any = true;
  }
  return range;
}

void fill_buckets(DeviceUses& uses, const Clock& clock, const Range& range) {
  const double length_us = clock.to_us(range.end - range.start);
  double width_us = 1;
  while (length_us / width_us > 100) width_us *= 10;
  uses.first_bucket = range.start;
  uses.last_end = range.end;
  uses.bucket_width = clock.from_us(width_us);
  const auto count = static_cast<int64_t>(length_us / width_us);
  for (DeviceUse& use : uses.devices)
    for (int64_t k = 0; k < count; ++k) {
      const Ticks start = range.start + static_cast<double>(k) * uses.bucket_width;
      const Ticks end = k == count - 1 ? range.end : start + uses.bucket_width;
      use.utilization_buckets.push_back(total_within(use.busy, {start, end}) / (end - start));
    }
}

// Whether their names say that kernels work on matrix units, by share of their time.
void matrix_shares(const Trace& trace, const Clock& clock, const Semantics& semantics,
                   const Launches& launches, DeviceUses& uses) {
  struct Sum {
    double of[3] = {0, 0, 0};  // by MatrixUse
  };
  std::map<int64_t, Sum> sums;
  std::vector<int8_t> known(trace.strings.size(), -1);
  for (const uint32_t device : launches.devices) {
    if (trace.events.kind[device] != EventKind::kKernel ||
        is_collective_kernel(trace.name_of(device)))
      continue;
    int8_t& use = known[trace.events.name[device]];
    if (use < 0) use = static_cast<int8_t>(matrix_use(trace.name_of(device), semantics));
    sums[trace.device[trace.events.detail[device]].device].of[use] +=
        event_length(trace, clock, device);
  }
  for (DeviceUse& use : uses.devices) {
    const auto& of = sums[use.device].of;
    const double all = of[0] + of[1] + of[2];
    if (all <= 0) continue;
    use.matrix_share = of[static_cast<int>(MatrixUse::kYes)] / all;
    use.matrix_unknown_share = of[static_cast<int>(MatrixUse::kUnknown)] / all;
  }
}

// Of kernels launched directly by operators: Tensor Core time and all time per device, and the
// eligible part.
void tensor_core_shares(const Trace& trace, const Clock& clock, const Semantics& semantics,
                        const CallForest& forest, const Launches& launches,
                        const std::vector<NodeTimes>& times, DeviceUses& uses) {
  std::vector<bool> has_eligible_child(forest.nodes.size(), false);
  for (size_t node = forest.nodes.size(); node-- > 0;)
    if (forest.nodes[node].parent != kNoRow &&
        (times[node].tc_eligible || has_eligible_child[node]))
      has_eligible_child[forest.nodes[node].parent] = true;
  double all = 0, eligible = 0;
  struct Sum {
    double tensor = 0, all = 0;
  };
  std::map<int64_t, Sum> per_device;
  for (const uint32_t device : launches.devices) {
    if (trace.events.kind[device] != EventKind::kKernel) continue;
    const uint32_t node = launches.node_of_device(device);
    if (node == kNoRow || !is_table_operator(trace, forest.nodes[node])) continue;
    const Ticks length = event_length(trace, clock, device);
    all += length;
    uses.has_operator_kernels = true;
    if (times[node].tc_eligible && !has_eligible_child[node]) eligible += length;
    Sum& sum = per_device[trace.device[trace.events.detail[device]].device];
    sum.all += length;
    if (uses_tensor_cores(trace.name_of(device), semantics)) sum.tensor += length;
  }
  uses.eligible_share = all > 0 ? eligible / all : 0;
  if (!uses.has_operator_kernels) return;
  for (DeviceUse& use : uses.devices) {
    const Sum& sum = per_device[use.device];
    use.tensor_core_share = sum.all > 0 ? sum.tensor / sum.all : 0.0;
  }
}

}  // namespace

DeviceUses measure_devices(const Trace& trace, const Clock& clock, const Semantics& semantics,
                           const CallForest& forest, const Launches& launches,
                           const std::vector<NodeTimes>& times, const Steps& steps) {
  DeviceUses uses;
  std::map<int64_t, std::vector<KernelRun>> runs;
  for (const uint32_t device : launches.devices) {
    const DeviceDetail& detail = trace.device[trace.events.detail[device]];
    if (trace.events.kind[device] != EventKind::kKernel || detail.device < 0) continue;
    const Ticks start = clock.start(trace.events.start_ns[device]);
    runs[detail.device].push_back({start, start + clock.duration(trace.events.duration_ns[device]),
                                   detail.blocks_per_sm, detail.occupancy});
  }
  const Ranges windows = steps.windows();
  const Ticks measured = total(windows);
  for (const auto& [device, list] : runs) {
    DeviceUse use;
    use.device = device;
    std::vector<Range> ranges;
    for (const KernelRun& run : list) ranges.push_back({run.start, run.end});
    use.busy = merged(std::move(ranges));
    Ticks busy = 0;
    for (const Range& window : windows) busy += total_within(use.busy, window);
    use.utilization = measured != 0 ? busy / measured : 0;
    use.efficiency = efficiency_stretches(list, semantics.original ? 0 : kResidue);
    use.sm_efficiency = mean_efficiency(use.efficiency, windows);
    use.occupancy = mean_occupancy(list, windows);
    uses.devices.push_back(std::move(use));
  }
  fill_buckets(uses, clock, global_range(trace, clock));
  tensor_core_shares(trace, clock, semantics, forest, launches, times, uses);
  matrix_shares(trace, clock, semantics, launches, uses);
  return uses;
}

}  // namespace camshaft::trace
