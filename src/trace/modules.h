// SPDX-License-Identifier: Apache-2.0
// The tree of nn.Modules with the time spent in each.
#pragma once

#include <string>
#include <vector>

#include "trace/call_forest.h"
#include "trace/operators.h"

namespace camshaft::trace {

struct ModuleNode {
  std::string name;  // without "nn.Module: "
  int64_t id = 0;
  int64_t occurrences = 0, operators = 0;
  Ticks host_total = 0, host_self = 0, device_total = 0, device_self = 0, average = 0;
  std::vector<ModuleNode> children;
};

std::vector<ModuleNode> build_modules(const Trace& trace, const Clock& clock,
                                      const CallForest& forest, const std::vector<NodeTimes>& times,
                                      const std::vector<bool>& lost);

}  // namespace camshaft::trace
