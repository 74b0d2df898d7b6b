// SPDX-License-Identifier: Apache-2.0
// The order of the analysis; each step reads what the ones before it made.
#include "trace/profile.h"

#include <algorithm>
#include <optional>

namespace camshaft::trace {

Dialect dialect_of(const Trace& trace) {
  for (const DeviceProperties& device : trace.device_properties)
    if (device.name.substr(0, 3) == "MLU") return Dialect::kMlu;
  return Dialect::kGpu;
}

namespace {

Ticks first_time(const Trace& trace, const Clock& clock, const Semantics& semantics) {
  std::optional<Ticks> first;
  for (uint32_t event = 0; event < trace.events.size() && !first; ++event) {
    const EventKind kind = trace.events.kind[event];
    if (kind == EventKind::kOther || (semantics.original && kind == EventKind::kDriver)) continue;
    first = clock.start(trace.events.start_ns[event]);
  }
  if (trace.memory.size() > 0) {
    const Ticks record = clock.start(trace.memory.time_ns.front());
    first = first ? std::min(*first, record) : record;
  }
  return first.value_or(clock.start(clock.origin_ns()));
}

}  // namespace

const std::vector<bool>& moved_away(const Profile& profile) {
  static const std::vector<bool> kNone;
  return profile.semantics.loses() ? profile.backward.taken : kNone;
}

namespace {

// The steps, then what was busy during them.
void find_figures(Profile& p, bool by_annotation, StepFigures& out) {
  out.steps = find_steps(p.trace, p.clock, p.semantics, p.launches, by_annotation);
  out.breakdown = break_down(p.trace, p.clock, p.semantics, out.steps, p.collectives);
  out.devices =
      measure_devices(p.trace, p.clock, p.semantics, p.forest, p.launches, p.times, out.steps);
}

void find_one_step(Profile& p) {
  StepFigures figures;
  find_figures(p, false, figures);
  if (!figures.steps.undefined) p.as_one_step = std::move(figures);
}

}  // namespace

std::unique_ptr<Profile> analyze(std::shared_ptr<const Trace> trace, const Semantics& semantics) {
  auto profile = std::make_unique<Profile>(std::move(trace));
  Profile& p = *profile;
  p.semantics = semantics;
  p.clock = Clock(p.trace, semantics.rounds());
  std::vector<uint32_t> node_of_runtime;
  p.forest = build_call_forest(p.trace, p.clock, semantics, node_of_runtime);
  p.launches = find_launches(p.trace, semantics, std::move(node_of_runtime));
  p.collectives = find_collectives(p.trace, p.clock, semantics, p.forest, p.launches);
  p.times = node_times(p.trace, p.clock, semantics, p.forest, p.launches);
  find_figures(p, !semantics.loses(), p);
  if (!p.steps.from_profiler && !semantics.loses()) find_one_step(p);
  assign_steps(p.collectives, p.plugin_figures().steps);
  p.backward = find_backward_modules(p.trace, p.clock, semantics, p.forest);
  p.stacks = find_call_stacks(p.trace, semantics);
  p.operators = group_operators(p.trace, p.forest, p.stacks, p.times, p.backward.lost);
  p.kernels = group_kernels(p.trace, p.clock, semantics, p.forest, p.launches, p.backward.lost);
  p.memory = index_memory(p.trace, p.clock, semantics, p.forest);
  p.modules = build_modules(p.trace, p.clock, p.forest, p.times, moved_away(p));
  p.first_time = first_time(p.trace, p.clock, semantics);
  p.has_kernels = !p.kernels.by_name.empty();
  p.has_device_work = !p.launches.devices.empty();
  p.has_memory = p.trace.memory.size() > 0;
  p.has_modules = !p.modules.empty();
  p.is_lightning = p.trace.framework == kLightning;
  return profile;
}

}  // namespace camshaft::trace
