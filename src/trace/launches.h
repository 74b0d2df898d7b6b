// SPDX-License-Identifier: Apache-2.0
// Which call launched a device activity, and which node of the call forest made that call.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "trace/call_forest.h"

namespace camshaft::trace {

// Indexed by event row; kNoRow where there is none.
struct Launches {
  std::vector<uint32_t> runtime_of_device;  // device event → runtime event
  std::vector<uint32_t> node_of_runtime;    // runtime event → node
  std::vector<uint32_t> runtimes;           // all runtime events, in time order
  std::vector<uint32_t> devices;            // all kernels, copies and fills, in time order

  // Of calls outside every operator: the innermost annotation, else Python frame, around them.
  std::unordered_map<uint32_t, uint32_t> around;  // runtime event → event
  // Of work that a graph replays: the node that was captured, where the trace holds the capture.
  std::unordered_map<uint32_t, uint32_t> captured;  // device event → node

  uint32_t node_of_device(uint32_t event) const {
    const uint32_t runtime = runtime_of_device[event];
    return runtime == kNoRow ? kNoRow : node_of_runtime[runtime];
  }
};

Launches find_launches(const Trace& trace, const Semantics& semantics,
                       std::vector<uint32_t> node_of_runtime);

// cudaGraphLaunch, hipGraphLaunch, cuGraphLaunch: one call, all the work of a graph.
bool is_graph_launch(std::string_view call);
// "cudaGraphLaunch in forward": a call outside every operator, and where it was made.
std::string launch_site(const Trace& trace, const Launches& launches, uint32_t runtime);

}  // namespace camshaft::trace
