// SPDX-License-Identifier: Apache-2.0
#include "trace/operators.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace camshaft::trace {
namespace {

// Time of the runtime calls of each node; on MLU, where calls nest, of their union.
void subtract_runtimes(const Trace& trace, const Clock& clock, const Semantics& semantics,
                       const Launches& launches, std::vector<NodeTimes>& times) {
  std::vector<Ticks> covered(semantics.is_mlu() ? times.size() : 0, -1);
  for (const uint32_t runtime : launches.runtimes) {
    const uint32_t node = launches.node_of_runtime[runtime];
    if (node == kNoRow) continue;
    const Ticks start = clock.start(trace.events.start_ns[runtime]);
    const Ticks length = event_length(trace, clock, runtime);
    if (!semantics.is_mlu()) {
      times[node].host_self -= length;
      continue;
    }
    const Ticks from = covered[node] < 0 ? start : std::max(start, covered[node]);
    if (start + length > from) times[node].host_self -= start + length - from;
    covered[node] = std::max(covered[node], start + length);
  }
}

void add_device_times(const Trace& trace, const Clock& clock, const Semantics& semantics,
                      const Launches& launches, std::vector<NodeTimes>& times) {
  enum : int8_t { kUnknown, kNone, kMatrix, kTensor };  // kTensor: by the plugin's list, too
  std::vector<int8_t> units(trace.strings.size(), kUnknown);
  for (const uint32_t device : launches.devices) {
    const uint32_t node = launches.node_of_device(device);
    if (node == kNoRow) continue;
    const Ticks length = event_length(trace, clock, device);
    times[node].device_self += length;
    if (trace.events.kind[device] != EventKind::kKernel) continue;
    int8_t& known = units[trace.events.name[device]];
    if (known == kUnknown)
      known = uses_tensor_cores(trace.name_of(device), semantics)               ? kTensor
              : matrix_use(trace.name_of(device), semantics) == MatrixUse::kYes ? kMatrix
                                                                                : kNone;
    if (known >= kMatrix) times[node].matrix_total += length;
    if (known == kTensor) {
      times[node].tc_self += length;
      times[node].tc_eligible = true;
    }
  }
}

struct GroupKey {
  StringId name, shapes;
  uint32_t call_stack;
  bool operator==(const GroupKey&) const = default;
};
struct GroupKeyHash {
  size_t operator()(const GroupKey& key) const {
    return (key.name * 0x9e3779b97f4a7c15ull) ^ (key.shapes * 0xc2b2ae3d27d4eb4full) ^
           (key.call_stack * 0x165667b19e3779f9ull);
  }
};

class Grouping {
 public:
  explicit Grouping(std::vector<OperatorGroup>& groups) : groups_(groups) {}

  void add(const GroupKey& key, const NodeTimes& times, bool has_stack) {
    const auto [place, is_new] = index_.try_emplace(key, static_cast<uint32_t>(groups_.size()));
    if (is_new) {
      OperatorGroup group;
      group.name = key.name;
      group.shapes = key.shapes;
      group.call_stack = key.call_stack;
      group.tc_eligible = times.tc_eligible;  // of the first one met
      groups_.push_back(group);
    }
    OperatorGroup& group = groups_[place->second];
    ++group.calls;
    group.host_total += times.host_total;
    group.host_self += times.host_self;
    group.device_total += times.device_total;
    group.device_self += times.device_self;
    group.tc_total += times.tc_total;
    group.matrix_total += times.matrix_total;
    group.tc_self += times.tc_self;
    group.has_call_stack = group.has_call_stack || has_stack;
  }

 private:
  std::vector<OperatorGroup>& groups_;
  std::unordered_map<GroupKey, uint32_t, GroupKeyHash> index_;
};

}  // namespace

std::vector<NodeTimes> node_times(const Trace& trace, const Clock& clock,
                                  const Semantics& semantics, const CallForest& forest,
                                  const Launches& launches) {
  const std::vector<Node>& nodes = forest.nodes;
  std::vector<NodeTimes> times(nodes.size());
  for (size_t node = 0; node < nodes.size(); ++node)
    times[node].host_total = times[node].host_self = nodes[node].end - nodes[node].start;
  subtract_runtimes(trace, clock, semantics, launches, times);
  add_device_times(trace, clock, semantics, launches, times);
  std::vector<int8_t> eligible(trace.strings.size(), -1);
  for (size_t node = nodes.size(); node-- > 0;) {  // children lie behind their parents
    NodeTimes& own = times[node];
    if (nodes[node].event != kNoRow) {
      int8_t& known = eligible[trace.events.name[nodes[node].event]];
      if (known < 0)
        known = is_tensor_core_eligible(trace.name_of(nodes[node].event), semantics) ? 1 : 0;
      own.tc_eligible = own.tc_eligible || known == 1;
    }
    own.device_total += own.device_self;
    own.tc_total += own.tc_self;
    if (nodes[node].parent == kNoRow) continue;
    NodeTimes& parent = times[nodes[node].parent];
    parent.host_self -= own.host_total;
    parent.device_total += own.device_total;
    parent.tc_total += own.tc_total;
    parent.matrix_total += own.matrix_total;
    if (nodes[nodes[node].parent].kind == NodeKind::kOperator)
      parent.tc_eligible = parent.tc_eligible || own.tc_eligible;
  }
  return times;
}

OperatorTables group_operators(const Trace& trace, const CallForest& forest,
                               const CallStacks& stacks, const std::vector<NodeTimes>& times,
                               const std::vector<bool>& lost) {
  OperatorTables tables;
  Grouping by_name(tables.by_name), by_shape(tables.by_shape);
  Grouping by_name_stack(tables.by_name_stack), by_shape_stack(tables.by_shape_stack);
  forest.for_each_post_order([&](uint32_t node) {
    if (!is_table_operator(trace, forest.nodes[node]) || (!lost.empty() && lost[node])) return;
    const uint32_t event = forest.nodes[node].event;
    const StringId name = trace.events.name[event];
    const HostDetail& detail = trace.host[trace.events.detail[event]];
    const uint32_t stack = stacks.of(trace, event);
    const bool has_stack = stack != 0;
    by_name.add({name, 0, 0}, times[node], has_stack);
    by_shape.add({name, detail.shapes, 0}, times[node], has_stack);
    if (!has_stack) return;
    by_name_stack.add({name, 0, stack}, times[node], true);
    by_shape_stack.add({name, detail.shapes, stack}, times[node], true);
  });
  return tables;
}

std::vector<uint32_t> order_by_self_time(const std::vector<OperatorGroup>& groups, bool by_host) {
  std::vector<uint32_t> order(groups.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return by_host ? groups[a].host_self > groups[b].host_self
                   : groups[a].device_self > groups[b].device_self;
  });
  return order;
}

}  // namespace camshaft::trace
