// SPDX-License-Identifier: Apache-2.0
// Every instant of a step goes to the first part that is active then.
#include <algorithm>

#include "trace/communication.h"
#include "trace/steps.h"

namespace camshaft::trace {
namespace {

// The part an event's time counts for; false: none.
bool part_of(const Trace& trace, uint32_t event, const Semantics& semantics,
             const Collectives& collectives, Part& part) {
  switch (trace.events.kind[event]) {
    case EventKind::kKernel:
      part = collectives.device_is_communication[event] ? Part::kCommunication : Part::kKernel;
      return true;
    case EventKind::kMemcpy:
      part = collectives.device_is_communication[event] ? Part::kCommunication : Part::kMemcpy;
      return true;
    case EventKind::kMemset:
      part = Part::kMemset;
      return true;
    case EventKind::kDriver:
      if (semantics.original) return false;
      [[fallthrough]];
    case EventKind::kRuntime:
      part = Part::kRuntime;
      return true;
    case EventKind::kGpuAnnotation:
      if (!semantics.original) return false;
      [[fallthrough]];
    case EventKind::kOperator:
    case EventKind::kAnnotation:
    case EventKind::kPythonOp: {
      const std::string_view name = trace.name_of(event);
      if (trace.events.kind[event] != EventKind::kPythonOp) {
        if (is_step_name(name)) return false;
        if (is_data_loader_name(name)) {
          part = Part::kDataLoader;
          return true;
        }
        if (!collective_library(name, semantics.dialect).empty()) {
          part = Part::kCommunication;
          return true;
        }
      }
      part = Part::kCpuExec;
      return true;
    }
    default:
      return false;
  }
}

// What each part takes of the steps.
std::vector<Ranges> divide(const Breakdown& breakdown, const Ranges& steps, bool original) {
  std::vector<Ranges> taken(kPartCount);
  Ranges free = steps;
  for (int k = 0; k < static_cast<int>(Part::kOther); ++k) {
    if (original &&
        (k == 0 ||
         free.empty())) {  // the original starts over with the whole steps once nothing is free
      taken[k] = breakdown.by_part[k];
      free = subtract(steps, taken[k]);
    } else {
      taken[k] = intersect(free, breakdown.by_part[k]);
      free = subtract(free, taken[k]);
    }
  }
  taken[static_cast<int>(Part::kOther)] = free;
  return taken;
}

bool touches(const Ranges& ranges, const Step& step) {
  const auto first = std::partition_point(
      ranges.begin(), ranges.end(), [&](const Range& range) { return range.end <= step.start; });
  return first != ranges.end() &&
         (first->start < step.end || (step.start == step.end && first->start <= step.start));
}

}  // namespace

const char* part_name(Part part) {
  constexpr const char* kNames[kPartCount] = {"Kernel",  "Memcpy",     "Memset",   "Communication",
                                              "Runtime", "DataLoader", "CPU Exec", "Other"};
  return kNames[static_cast<int>(part)];
}

Breakdown break_down(const Trace& trace, const Clock& clock, const Semantics& semantics,
                     const Steps& steps, const Collectives& collectives) {
  Breakdown breakdown;
  std::vector<Range> any[kPartCount];
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    Part part;
    if (!part_of(trace, event, semantics, collectives, part)) continue;
    const Ticks start = clock.start(trace.events.start_ns[event]);
    const Ticks end = start + clock.duration(trace.events.duration_ns[event]);
    std::vector<Range>& ranges = any[static_cast<int>(part)];
    if (!ranges.empty() && start >= ranges.back().start && start <= ranges.back().end)
      ranges.back().end =
          std::max(ranges.back().end, end);  // most operators nest: keep the list short
    else
      ranges.push_back({start, end});
    breakdown.has_device_activity = breakdown.has_device_activity ||
                                    is_device_activity(trace.events.kind[event]) ||
                                    part == Part::kRuntime;
    breakdown.has_communication = breakdown.has_communication || part == Part::kCommunication;
  }
  for (int k = 0; k < kPartCount; ++k) breakdown.by_part[k] = merged(std::move(any[k]));
  std::vector<Range> whole;
  for (const Step& step : steps.list) whole.push_back({step.start, step.end});
  const std::vector<Ranges> taken = divide(breakdown, merged(std::move(whole)), semantics.original);
  breakdown.average.assign(kPartCount, 0);
  for (const Step& step : steps.list) {
    std::vector<double>& parts = breakdown.steps.emplace_back(kPartCount);
    breakdown.touched.push_back(0);
    for (int k = 0; k < kPartCount; ++k) {
      parts[k] = total_within(taken[k], {step.start, step.end});
      breakdown.average[k] += parts[k];
      if (touches(taken[k], step)) breakdown.touched.back() |= 1u << k;
    }
    breakdown.average_step += step.end - step.start;
  }
  if (steps.list.empty()) return breakdown;
  const auto count = static_cast<double>(steps.list.size());
  for (double& part : breakdown.average) part /= count;
  breakdown.average_step /= count;
  return breakdown;
}

}  // namespace camshaft::trace
