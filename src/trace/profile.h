// SPDX-License-Identifier: Apache-2.0
// A trace with everything worked out that its views need: one worker's file of one span.
#pragma once

#include <memory>
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

struct Profile {
  explicit Profile(std::shared_ptr<const Trace> from) : owner(std::move(from)), trace(*owner) {}

  std::shared_ptr<const Trace> owner;  // several ways of reading share one trace
  const Trace& trace;
  Semantics semantics;
  Clock clock;
  CallForest forest;
  BackwardModules backward;
  Launches launches;
  Steps steps;
  Collectives collectives;
  Breakdown breakdown;
  std::vector<NodeTimes> times;
  OperatorTables operators;
  KernelTables kernels;
  DeviceUses devices;
  MemoryIndex memory;
  std::vector<ModuleNode> modules;

  Ticks first_time = 0;          // of the events that count, memory records included
  bool has_kernels = false;      // ≥ 1 kernel
  bool has_device_work = false;  // kernels, copies or fills
  bool has_memory = false;
  bool has_modules = false;
  bool is_lightning = false;

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
