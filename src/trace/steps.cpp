// SPDX-License-Identifier: Apache-2.0
// Steps grow to hold the device work they launched and follow each other without gaps inside the
// profiled window.
#include "trace/steps.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

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

constexpr size_t kMostCandidates = 12;

// Annotations of one name that may be steps: several, one after the other.
struct Candidate {
  double total_ns = 0;
  std::vector<uint32_t> events;
};

std::map<StringId, Candidate> step_candidates(const Trace& trace) {
  std::map<StringId, Candidate> candidates;
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    if (trace.events.kind[event] != EventKind::kAnnotation) continue;
    const std::string_view name = trace.name_of(event);
    if (is_collective_name(name) || is_optimizer_name(name) || is_data_loader_name(name)) continue;
    Candidate& candidate = candidates[trace.events.name[event]];
    candidate.total_ns += static_cast<double>(trace.events.duration_ns[event]);
    candidate.events.push_back(event);
  }
  // What is shorter in all than several others is no loop around them.
  std::vector<double> lengths;
  for (const auto& [name, candidate] : candidates) lengths.push_back(candidate.total_ns);
  std::sort(lengths.rbegin(), lengths.rend());
  const double least = lengths.size() > kMostCandidates ? lengths[kMostCandidates - 1] : 0;
  std::erase_if(candidates, [&](const auto& entry) {
    if (entry.second.total_ns < least) return true;
    const std::vector<uint32_t>& events = entry.second.events;
    for (size_t k = 1; k < events.size(); ++k)
      if (trace.events.start_ns[events[k]] < trace.end_ns(events[k - 1])) return true;
    return events.size() < 2;
  });
  return candidates;
}

// The share of the work that steps hold: of device time where there is any, else of the time in
// which operators ran.
class Coverage {
 public:
  Coverage(const Trace& trace, const Clock& clock, const Launches& launches) {
    const auto range_of = [&](uint32_t event) {
      const Ticks start = clock.start(trace.events.start_ns[event]);
      return Range{start, start + clock.duration(trace.events.duration_ns[event])};
    };
    for (const uint32_t device : launches.devices) work_.push_back(range_of(device));
    if (work_.empty())
      for (uint32_t event = 0; event < trace.events.size(); ++event)
        if (trace.events.kind[event] == EventKind::kOperator) work_.push_back(range_of(event));
    work_ = merged(std::move(work_));
  }

  double of(const Ranges& steps) const {
    const Ticks all = total(work_);
    return all > 0 ? total(intersect(work_, steps)) / all : 0;
  }

 private:
  Ranges work_;
};

constexpr double kEnoughCoverage = 0.8;

// Without ProfilerStep marks: of the annotations that repeat, the one that covers most of the work,
// one step per occurrence. None, when none covers nearly all of it.
bool annotation_steps(const Trace& trace, const Clock& clock, const Launches& launches,
                      Steps& steps) {
  steps.note = "no marks of steps: the whole span is one step";
  const std::map<StringId, Candidate> candidates = step_candidates(trace);
  if (candidates.empty()) return false;
  const Coverage coverage(trace, clock, launches);
  double best = -1, best_length = 0;
  for (const auto& [name, candidate] : candidates) {
    Steps tried;
    for (size_t k = 0; k < candidate.events.size(); ++k) {
      const Ticks start = clock.start(trace.events.start_ns[candidate.events[k]]);
      const Ticks length = clock.duration(trace.events.duration_ns[candidate.events[k]]);
      tried.list.push_back({std::to_string(k), start, start + length});
    }
    stretch_over_device(trace, clock, launches, tried.list);
    tried.from_annotation = true;
    const double covered = tried.list.size() < 2 ? 0 : coverage.of(tried.windows());
    if (covered < best || (covered == best && candidate.total_ns <= best_length)) continue;
    best = covered;
    best_length = candidate.total_ns;
    steps.list = std::move(tried.list);
    steps.annotation = std::string(trace.strings[name]);
  }
  if (best >= kEnoughCoverage) {
    steps.note.clear();
    return true;
  }
  steps.note = fmt::format(
      "no annotation covers the work ('{}' comes nearest with {:.0f} %): the whole span is one "
      "step",
      steps.annotation, 100 * std::max(0.0, best));
  steps.list.clear();
  steps.annotation.clear();
  return false;
}

}  // namespace

Ranges Steps::windows() const {
  if (!from_annotation) return {span()};
  std::vector<Range> ranges;
  for (const Step& step : list) ranges.push_back({step.start, step.end});
  return merged(std::move(ranges));
}

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
  if (steps.list.empty() && by_annotation) {
    steps.from_annotation = annotation_steps(trace, clock, launches, steps);
    if (steps.from_annotation) return steps;
  }
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
