// SPDX-License-Identifier: Apache-2.0
// A trace with everything worked out that its views need: one worker's file of one span.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "trace/backward.h"
#include "trace/communication.h"
#include "trace/kernels.h"
#include "trace/launches.h"
#include "trace/memory_view.h"
#include "trace/modules.h"
#include "trace/operators.h"
#include "trace/steps.h"

namespace camshaft::trace {

// Where the time of the steps went.
struct StepFigures {
  Steps steps;
  Breakdown breakdown;
  DeviceUses devices;
};

struct TreeView;  // tree_view.h

struct Profile : StepFigures {
  explicit Profile(std::shared_ptr<const Trace> from) : owner(std::move(from)), trace(*owner) {}

  std::shared_ptr<const Trace> owner;  // several ways of reading share one trace
  const Trace& trace;
  Semantics semantics;
  Clock clock;
  CallForest forest;
  BackwardModules backward;
  Launches launches;
  Collectives collectives;
  std::vector<NodeTimes> times;
  CallStacks stacks;
  OperatorTables operators;
  KernelTables kernels;
  MemoryIndex memory;
  std::vector<ModuleNode> modules;
  // Where no ProfilerStep marks steps: everything as one, which is what the plugin's routes answer.
  std::optional<StepFigures> as_one_step;
  const StepFigures& plugin_figures() const { return as_one_step ? *as_one_step : *this; }

  Ticks first_time = 0;          // of the events that count, memory records included
  bool has_kernels = false;      // ≥ 1 kernel
  bool has_device_work = false;  // kernels, copies or fills
  bool has_memory = false;
  bool has_modules = false;
  bool is_lightning = false;

  // Of tree_view().
  mutable std::once_flag tree_made;
  mutable std::shared_ptr<const TreeView> tree;

  std::string name;  // what messages and titles call it
  std::string worker, span;
};

std::unique_ptr<Profile> analyze(std::shared_ptr<const Trace> trace, const Semantics& semantics);

// Nodes that memory and module figures leave out: the original forgets what it moved to backward
// passes.
const std::vector<bool>& moved_away(const Profile& profile);

// The dialect a trace calls for: its own devices or categories decide.
Dialect dialect_of(const Trace& trace);

}  // namespace camshaft::trace
