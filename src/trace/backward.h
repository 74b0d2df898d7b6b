// SPDX-License-Identifier: Apache-2.0
// Backward passes of modules: autograd's work, which runs on a thread of its own, put together by
// the module whose forward operators it belongs to.
#pragma once

#include <string>
#include <vector>

#include "trace/call_forest.h"

namespace camshaft::trace {

struct BackwardNode {
  std::string name;  // "nn.Module: Net_0.backward"
  Ticks start = 0, end = 0;
  std::vector<uint32_t> engine_nodes;  // evaluate_function nodes of the call forest
  std::vector<uint32_t> children;      // of submodules, into BackwardModules::nodes
};

// A root that found its place: below `parent`, before its child `before` (kNoRow: behind all).
struct BackwardPlace {
  uint32_t node = 0;  // into BackwardModules::nodes
  uint32_t parent = 0;
  uint32_t before = kNoRow;
};

struct BackwardModules {
  std::vector<BackwardNode> nodes;
  std::vector<BackwardPlace> places;
  std::vector<bool> taken;  // by forest node: moved out of its thread's tree, with all below it
  std::vector<bool> lost;   // by forest node: as the original reads it, moved out and put nowhere
};

// Empty unless the trace has forward-to-backward flows and modules.
BackwardModules find_backward_modules(const Trace& trace, const Clock& clock,
                                      const Semantics& semantics, const CallForest& forest);

}  // namespace camshaft::trace
