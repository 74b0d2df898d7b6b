// SPDX-License-Identifier: Apache-2.0
#include "trace/launches.h"

#include <unordered_map>

namespace camshaft::trace {

Launches find_launches(const Trace& trace, const Semantics& semantics,
                       std::vector<uint32_t> node_of_runtime) {
  const EventColumns& events = trace.events;
  Launches launches;
  launches.node_of_runtime = std::move(node_of_runtime);
  launches.runtime_of_device.assign(events.size(), kNoRow);
  std::unordered_map<int64_t, uint32_t> by_correlation;
  by_correlation.reserve(trace.runtime.size());
  std::vector<uint32_t> early;  // device events that stand before their call
  for (uint32_t event = 0; event < events.size(); ++event) {
    const EventKind kind = events.kind[event];
    if (kind == EventKind::kRuntime || (kind == EventKind::kDriver && !semantics.original)) {
      launches.runtimes.push_back(event);
      const int64_t correlation = trace.runtime[events.detail[event]].correlation;
      if (correlation != kNoId) by_correlation[correlation] = event;
    } else if (is_device_activity(kind)) {
      launches.devices.push_back(event);
      const int64_t correlation = trace.device[events.detail[event]].correlation;
      const auto found = by_correlation.find(correlation);
      if (found != by_correlation.end())
        launches.runtime_of_device[event] = found->second;
      else if (correlation != kNoId)
        early.push_back(event);
    }
  }
  for (const uint32_t event : early) {
    const auto found = by_correlation.find(trace.device[events.detail[event]].correlation);
    if (found != by_correlation.end()) launches.runtime_of_device[event] = found->second;
  }
  return launches;
}

}  // namespace camshaft::trace
