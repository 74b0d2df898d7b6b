// SPDX-License-Identifier: Apache-2.0
#include "trace/launches.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "trace/semantics.h"

namespace camshaft::trace {
namespace {

bool is_launch(const Trace& trace, uint32_t event) {
  const EventKind kind = trace.events.kind[event];
  return kind == EventKind::kRuntime || kind == EventKind::kDriver;
}

// What surrounds calls that no node owns: annotations and Python frames are kept per thread while
// they are open.
void find_surroundings(const Trace& trace, Launches& launches) {
  std::map<std::pair<StringId, StringId>, std::vector<uint32_t>> threads;
  std::vector<std::vector<uint32_t>*> open_of_track(trace.tracks.size());
  for (size_t track = 0; track < trace.tracks.size(); ++track)
    open_of_track[track] = &threads[{trace.tracks[track].pid, trace.tracks[track].tid}];
  const auto is_builtin = [&](uint32_t event) {
    return trace.events.kind[event] != EventKind::kAnnotation &&
           trace.name_of(event).substr(0, 1) == "<";  // "<built-in method …>" tells no place
  };
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    std::vector<uint32_t>& open = *open_of_track[trace.events.track[event]];
    const EventKind kind = trace.events.kind[event];
    const bool surrounds = kind == EventKind::kAnnotation || kind == EventKind::kPythonFunction ||
                           kind == EventKind::kModule;
    const bool is_lone_call = is_launch(trace, event) && launches.node_of_runtime[event] == kNoRow;
    if (!surrounds && !is_lone_call) continue;
    while (!open.empty() && trace.end_ns(open.back()) <= trace.events.start_ns[event])
      open.pop_back();
    if (surrounds) {
      if (!is_builtin(event)) open.push_back(event);
      continue;
    }
    if (open.empty()) continue;
    const auto annotation = std::find_if(open.rbegin(), open.rend(), [&](uint32_t at) {
      return trace.events.kind[at] == EventKind::kAnnotation;
    });
    launches.around[event] = annotation != open.rend() ? *annotation : open.back();
  }
}

// The calls of one capture, in their order: what a replay runs, if it runs as many.
struct Capture {
  int64_t begin_ns = 0, end_ns = 0;
  std::vector<uint32_t> calls;
};

std::vector<Capture> find_captures(const Trace& trace, const Launches& launches,
                                   const std::vector<bool>& has_work) {
  std::vector<Capture> captures;
  std::unordered_map<uint32_t, Capture> open;  // by track
  for (const uint32_t call : launches.runtimes) {
    const std::string_view name = trace.name_of(call);
    const uint32_t track = trace.events.track[call];
    if (contains(name, "StreamBeginCapture")) {
      open[track] = {trace.events.start_ns[call], 0, {}};
      continue;
    }
    const auto capture = open.find(track);
    if (capture == open.end()) continue;
    if (contains(name, "StreamEndCapture")) {
      capture->second.end_ns = trace.end_ns(call);
      captures.push_back(std::move(capture->second));
      open.erase(capture);
    } else if (!has_work[call] &&
               (contains(name, "Launch") || contains(name, "Memcpy") || contains(name, "Memset"))) {
      capture->second.calls.push_back(call);
    }
  }
  return captures;
}

// A replay of as many activities as exactly one earlier capture has calls is that capture's.
void find_captured(const Trace& trace, Launches& launches) {
  std::map<uint32_t, std::vector<uint32_t>> replays;  // graph launch → its work
  std::vector<bool> has_work(trace.events.size(), false);
  for (const uint32_t device : launches.devices) {
    const uint32_t call = launches.runtime_of_device[device];
    if (call == kNoRow) continue;
    has_work[call] = true;
    if (is_graph_launch(trace.name_of(call))) replays[call].push_back(device);
  }
  if (replays.empty()) return;
  const std::vector<Capture> captures = find_captures(trace, launches, has_work);
  for (const auto& [call, work] : replays) {
    const Capture* found = nullptr;
    bool several = false;
    for (const Capture& capture : captures) {
      if (capture.end_ns > trace.events.start_ns[call] || capture.calls.size() != work.size())
        continue;
      several = several || found != nullptr;
      found = &capture;
    }
    if (found == nullptr || several) continue;
    for (size_t k = 0; k < work.size(); ++k)
      if (const uint32_t node = launches.node_of_runtime[found->calls[k]]; node != kNoRow)
        launches.captured[work[k]] = node;
  }
}

}  // namespace

bool is_graph_launch(std::string_view call) {
  return contains(call, "GraphLaunch");
}

std::string launch_site(const Trace& trace, const Launches& launches, uint32_t runtime) {
  const auto around = launches.around.find(runtime);
  const std::string call(trace.name_of(runtime));
  return around == launches.around.end()
             ? call
             : fmt::format("{} in {}", call, trace.name_of(around->second));
}

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
  if (semantics.loses()) return launches;
  find_surroundings(trace, launches);
  find_captured(trace, launches);
  return launches;
}

}  // namespace camshaft::trace
