// SPDX-License-Identifier: Apache-2.0
// Steps grow to hold the device work they launched and follow each other without gaps inside the
// profiled window.
#include "trace/steps.h"

#include <algorithm>
#include <map>

namespace camshaft::trace {
namespace {

bool is_step_event(const Trace& trace, uint32_t event, const Semantics& semantics) {
  NodeKind kind;
  return node_kind_of(trace, event, semantics, kind) && kind == NodeKind::kStep;
}

std::vector<Step> host_steps(const Trace& trace, const Clock& clock, const Semantics& semantics) {
  std::vector<Step> steps;
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    if (!is_step_event(trace, event, semantics)) continue;
    const Ticks start = clock.start(trace.events.start_ns[event]);
    steps.push_back({std::string(trace.name_of(event).substr(kStepPrefix.size())), start,
                     start + clock.duration(trace.events.duration_ns[event])});
  }
  return steps;
}

bool spans_whole_step(EventKind kind, const Semantics& semantics, bool by_annotation) {
  if (kind == EventKind::kOperator || kind == EventKind::kPythonOp) return true;
  if (kind == EventKind::kGpuAnnotation) return semantics.is_mlu() && semantics.original;
  return kind == EventKind::kAnnotation && (semantics.is_mlu() || by_annotation);
}

bool is_device_work(EventKind kind) {
  return kind == EventKind::kKernel || kind == EventKind::kMemcpy || kind == EventKind::kMemset;
}

// One step over all events that count.
template <class Counts>
bool step_over(const Trace& trace, const Clock& clock, Step& step, const Counts& counts) {
  bool any = false;
  step = {"0", 0, 0};
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    if (!counts(trace.events.kind[event])) continue;
    const Ticks start = clock.start(trace.events.start_ns[event]);
    const Ticks end = start + clock.duration(trace.events.duration_ns[event]);
    step.start = any ? std::min(step.start, start) : start;
    step.end = any ? std::max(step.end, end) : end;
    any = true;
  }
  return any;
}

struct DeviceSpan {
  Ticks start = 0, end = 0;
  uint64_t count = 0;

  void add(Ticks from, Ticks to) {
    start = count > 0 ? std::min(start, from) : from;
    end = count > 0 ? std::max(end, to) : to;
    ++count;
  }
};

// Step that holds each runtime call wholly, -1 for none.
std::vector<int32_t> step_of_runtimes(const Trace& trace, const Clock& clock,
                                      const Launches& launches, const std::vector<Step>& steps) {
  const StepFinder finder(steps);
  std::vector<int32_t> found(trace.events.size(), -1);
  for (const uint32_t runtime : launches.runtimes) {
    const Ticks start = clock.start(trace.events.start_ns[runtime]);
    found[runtime] = finder.find(start, start + clock.duration(trace.events.duration_ns[runtime]));
  }
  return found;
}

void drop_unfinished_tail(std::vector<Step>& steps, const std::vector<DeviceSpan>& spans) {
  size_t kept = steps.size();
  while (kept > 0 && spans[kept - 1].count == 0) --kept;
  if (kept >= 2 &&
      static_cast<double>(spans[kept - 1].count) < 0.8 * static_cast<double>(spans[kept - 2].count))
    --kept;
  steps.resize(kept);
}

// Moves the borders: a step owns the device work it launched, the next one starts where that ends.
void stretch_over_device(const Trace& trace, const Clock& clock, const Launches& launches,
                         std::vector<Step>& steps) {
  const std::vector<int32_t> step_of = step_of_runtimes(trace, clock, launches, steps);
  std::vector<DeviceSpan> spans(steps.size());
  std::vector<std::pair<Ticks, Ticks>> unmatched;
  bool any = false;
  for (const uint32_t device : launches.devices) {
    const Ticks start = clock.start(trace.events.start_ns[device]);
    const Ticks end = start + clock.duration(trace.events.duration_ns[device]);
    const uint32_t runtime = launches.runtime_of_device[device];
    const int32_t step = runtime == kNoRow ? -1 : step_of[runtime];
    if (step < 0) {
      unmatched.emplace_back(start, end);
      continue;
    }
    any = true;
    spans[step].add(start, end);
  }
  if (!any) return;
  Ticks previous = steps.front().start;
  if (spans.front().count > 0)
    for (const auto& [start, end] : unmatched)
      if (end < spans.front().start) previous = std::max(previous, end);
  for (size_t k = 0; k < steps.size(); ++k) {
    const Ticks start = std::max(previous, steps[k].start);
    Ticks end =
        spans[k].count > 0 ? std::max(steps[k].end, spans[k].end) : std::max(steps[k].end, start);
    end = std::max(end, start);
    steps[k].start = start;
    steps[k].end = previous = end;
  }
  drop_unfinished_tail(steps, spans);
}

// Without ProfilerStep marks: the longest-running annotation that repeats, one step per occurrence.
bool annotation_steps(const Trace& trace, const Clock& clock, Steps& steps) {
  struct Candidate {
    double total = 0;
    std::vector<uint32_t> events;
  };
  std::map<StringId, Candidate> candidates;
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    if (trace.events.kind[event] != EventKind::kAnnotation) continue;
    const std::string_view name = trace.name_of(event);
    if (is_collective_name(name) || is_optimizer_name(name) || is_data_loader_name(name)) continue;
    Candidate& candidate = candidates[trace.events.name[event]];
    candidate.total += static_cast<double>(trace.events.duration_ns[event]);
    candidate.events.push_back(event);
  }
  const Candidate* best = nullptr;
  for (const auto& [name, candidate] : candidates) {
    if (candidate.events.size() < 2 || (best != nullptr && candidate.total <= best->total))
      continue;
    const bool apart = std::is_sorted(
        candidate.events.begin(), candidate.events.end(), [&](uint32_t a, uint32_t b) {
          return trace.events.start_ns[a] < trace.end_ns(b);  // occurrences must not overlap
        });
    if (apart) best = &candidate;
  }
  if (best == nullptr) return false;
  steps.annotation = std::string(trace.name_of(best->events.front()));
  for (size_t k = 0; k < best->events.size(); ++k) {
    const Ticks start = clock.start(trace.events.start_ns[best->events[k]]);
    steps.list.push_back({std::to_string(k), start,
                          start + clock.duration(trace.events.duration_ns[best->events[k]])});
  }
  return true;
}

}  // namespace

StepFinder::StepFinder(const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    starts_.push_back(step.start);
    ends_.push_back(ends_.empty() ? step.end : std::max(ends_.back(), step.end));
  }
}

int32_t StepFinder::find(Ticks start, Ticks end) const {
  const auto step = std::lower_bound(ends_.begin(), ends_.end(), end) - ends_.begin();
  const bool holds = step < static_cast<int64_t>(starts_.size()) && starts_[step] <= start;
  return holds ? static_cast<int32_t>(step) : -1;
}

Steps find_steps(const Trace& trace, const Clock& clock, const Semantics& semantics,
                 const Launches& launches, bool by_annotation) {
  Steps steps;
  steps.list = host_steps(trace, clock, semantics);
  steps.from_profiler = !steps.list.empty();
  if (steps.list.empty() && by_annotation)
    steps.from_annotation = annotation_steps(trace, clock, steps);
  if (steps.list.empty()) {
    Step whole;
    const auto on_host = [&](EventKind kind) {
      return spans_whole_step(kind, semantics, by_annotation);
    };
    const bool any = step_over(trace, clock, whole, on_host) ||
                     (by_annotation && step_over(trace, clock, whole, is_device_work));
    if (!any) {
      steps.undefined = true;
      if (!semantics.original) return steps;
      // The original starts from the largest and the smallest 64-bit time and finds nothing between
      // them.
      whole.start = clock.from_us(9223372036854775807.0);
      whole.end = -whole.start;
    }
    steps.list.push_back(whole);
  }
  stretch_over_device(trace, clock, launches, steps.list);
  return steps;
}

}  // namespace camshaft::trace
