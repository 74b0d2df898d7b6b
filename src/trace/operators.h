// SPDX-License-Identifier: Apache-2.0
// Host and device time of every operator, grouped by name, by shapes and by call stack.
#pragma once

#include <vector>

#include "trace/call_stacks.h"
#include "trace/launches.h"

namespace camshaft::trace {

// Sums over the nodes of the call forest.
struct NodeTimes {
  Ticks host_total = 0, host_self = 0;
  Ticks device_total = 0, device_self = 0;
  Ticks tc_total = 0, tc_self = 0;  // of kernels that use Tensor Cores by the plugin's list
  Ticks matrix_total = 0;           // of kernels that do by ours
  bool tc_eligible = false;
};

std::vector<NodeTimes> node_times(const Trace& trace, const Clock& clock,
                                  const Semantics& semantics, const CallForest& forest,
                                  const Launches& launches);

struct OperatorGroup {
  StringId name = 0;
  StringId shapes = 0;      // of tables by shape
  uint32_t call_stack = 0;  // of tables by stack: see CallStacks
  int64_t calls = 0;
  Ticks host_total = 0, host_self = 0;
  Ticks device_total = 0, device_self = 0;
  Ticks tc_total = 0, tc_self = 0, matrix_total = 0;
  bool tc_eligible = false;
  bool has_call_stack = false;
};

struct OperatorTables {
  std::vector<OperatorGroup> by_name, by_shape;
  std::vector<OperatorGroup> by_name_stack, by_shape_stack;  // only of operators with a call stack
};

// Each table in order of first appearance (children before parents).
// `lost` nodes (may be empty) are left out.
OperatorTables group_operators(const Trace& trace, const CallForest& forest,
                               const CallStacks& stacks, const std::vector<NodeTimes>& times,
                               const std::vector<bool>& lost);

// Order of `groups` by device self time, host self time when `by_host`; descending, stable.
std::vector<uint32_t> order_by_self_time(const std::vector<OperatorGroup>& groups, bool by_host);

}  // namespace camshaft::trace
