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

std::optional<double> mean_efficiency(const std::vector<CounterPoint>& stretches,
                                      const Range& span) {
  double weighted = 0;
  bool any = false;
  for (const CounterPoint& stretch : stretches) {
    const Ticks from = std::max(stretch.start, span.start), to = std::min(stretch.end, span.end);
    if (from >= to) continue;
    any = true;
    weighted += stretch.value * (to - from);
  }
  if (!any || span.end <= span.start) return std::nullopt;
  return weighted / (span.end - span.start);
}

std::optional<double> mean_occupancy(const std::vector<KernelRun>& runs, const Range& span) {
  double weighted = 0, weight = 0;
  for (const KernelRun& run : runs) {
    const Ticks from = std::max(run.start, span.start), to = std::min(run.end, span.end);
    if (run.occupancy < 0 || from >= to) continue;
    weighted += run.occupancy * (to - from);
    weight += to - from;
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

// AMD's kernels tell matrix units only in part: none seen does not mean none used.
bool names_tell_all(const Trace& trace, const Launches& launches) {
  return std::none_of(launches.runtimes.begin(), launches.runtimes.end(), [&](uint32_t runtime) {
    return trace.name_of(runtime).substr(0, 3) == "hip";
  });
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
    double tensor = 0, matrix = 0, all = 0;
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
    if (uses_matrix_units(trace.name_of(device), semantics)) sum.matrix += length;
  }
  uses.eligible_share = all > 0 ? eligible / all : 0;
  if (!uses.has_operator_kernels) return;
  const bool tells_all = semantics.dialect != Dialect::kMlu && names_tell_all(trace, launches);
  for (DeviceUse& use : uses.devices) {
    const Sum& sum = per_device[use.device];
    use.tensor_core_share = sum.all > 0 ? sum.tensor / sum.all : 0.0;
    if (sum.matrix > 0 || tells_all) use.matrix_share = sum.all > 0 ? sum.matrix / sum.all : 0.0;
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
  const Range span = steps.span();
  for (const auto& [device, list] : runs) {
    DeviceUse use;
    use.device = device;
    std::vector<Range> ranges;
    for (const KernelRun& run : list) ranges.push_back({run.start, run.end});
    use.busy = merged(std::move(ranges));
    use.utilization =
        span.end != span.start ? total_within(use.busy, span) / (span.end - span.start) : 0;
    use.efficiency = efficiency_stretches(list, semantics.original ? 0 : kResidue);
    use.sm_efficiency = mean_efficiency(use.efficiency, span);
    use.occupancy = mean_occupancy(list, span);
    uses.devices.push_back(std::move(use));
  }
  fill_buckets(uses, clock, global_range(trace, clock));
  tensor_core_shares(trace, clock, semantics, forest, launches, times, uses);
  return uses;
}

}  // namespace camshaft::trace
