// SPDX-License-Identifier: Apache-2.0
// Which call launched a device activity, and which node of the call forest made that call.
#pragma once

#include <vector>

#include "trace/call_forest.h"

namespace camshaft::trace {

// Indexed by event row; kNoRow where there is none.
struct Launches {
  std::vector<uint32_t> runtime_of_device;  // device event → runtime event
  std::vector<uint32_t> node_of_runtime;    // runtime event → node
  std::vector<uint32_t> runtimes;           // all runtime events, in time order
  std::vector<uint32_t> devices;            // all kernels, copies and fills, in time order

  uint32_t node_of_device(uint32_t event) const {
    const uint32_t runtime = runtime_of_device[event];
    return runtime == kNoRow ? kNoRow : node_of_runtime[runtime];
  }
};

Launches find_launches(const Trace& trace, const Semantics& semantics,
                       std::vector<uint32_t> node_of_runtime);

}  // namespace camshaft::trace
