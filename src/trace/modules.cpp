// SPDX-License-Identifier: Apache-2.0
// Which module lies in which comes from the Python frames' parent ids; the figures come from the
// call forest.
#include "trace/modules.h"

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>
#include <unordered_set>

namespace camshaft::trace {
namespace {

constexpr std::string_view kPrefix = "nn.Module: ";
constexpr int kMaxModuleDepth = 2000;  // of modules in modules: Python itself stops at 1000 frames

struct ModuleKey {
  StringId name = 0;
  int64_t id = 0;
  auto operator<=>(const ModuleKey&) const = default;
};

// Lightning's ranges carry no ids.
ModuleKey key_of(const Trace& trace, uint32_t event) {
  const bool has_id = trace.events.kind[event] == EventKind::kModule;
  return {trace.events.name[event],
          has_id ? trace.python[trace.events.detail[event]].module_id : 0};
}

struct ModuleStat {
  int64_t occurrences = 0, operators = 0;
  Ticks host_total = 0, host_self = 0, device_total = 0, device_self = 0;
};

// A distinct sub-tree: the same module with the same children in the same order.
struct Shape {
  ModuleKey key;
  std::vector<uint32_t> children;
  auto operator<=>(const Shape&) const = default;
};

struct ModuleCall {
  uint32_t event = 0;
  uint32_t parent = kNoRow;  // index of the nearest module call above
  std::vector<uint32_t> children;
};

// Nearest module call at or above a Python frame. Every frame is walked once: what was found is
// kept for all frames of the way, and a circle of parent ids, as a damaged file may have, ends it.
class NearestModule {
 public:
  NearestModule(const Trace& trace, const std::unordered_map<int64_t, uint32_t>& event_of_id,
                const std::unordered_map<uint32_t, uint32_t>& call_of_event)
      : trace_(trace), event_of_id_(event_of_id), call_of_event_(call_of_event) {}

  uint32_t of(int64_t frame) {
    uint32_t found = kNoRow;
    way_.clear();
    for (int64_t at = frame; at != kNoId;) {
      const auto [known, is_new] = nearest_.try_emplace(at, kNoRow);
      if (!is_new) {
        found = known->second;
        break;
      }
      way_.push_back(at);
      const auto event = event_of_id_.find(at);
      if (event == event_of_id_.end()) break;
      if (const auto call = call_of_event_.find(event->second); call != call_of_event_.end()) {
        found = call->second;
        break;
      }
      at = trace_.python[trace_.events.detail[event->second]].parent_id;
    }
    for (const int64_t at : way_) nearest_[at] = found;
    return found;
  }

 private:
  const Trace& trace_;
  const std::unordered_map<int64_t, uint32_t>& event_of_id_;
  const std::unordered_map<uint32_t, uint32_t>& call_of_event_;
  std::unordered_map<int64_t, uint32_t> nearest_;
  std::vector<int64_t> way_;
};

std::vector<ModuleCall> module_calls(const Trace& trace) {
  std::unordered_map<int64_t, uint32_t> event_of_id;
  std::vector<ModuleCall> calls;
  std::unordered_map<uint32_t, uint32_t> call_of_event;
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    const EventKind kind = trace.events.kind[event];
    if (kind != EventKind::kPythonFunction && kind != EventKind::kModule) continue;
    event_of_id[trace.python[trace.events.detail[event]].id] = event;
    if (kind != EventKind::kModule) continue;
    call_of_event[event] = static_cast<uint32_t>(calls.size());
    calls.push_back({event, kNoRow, {}});
  }
  NearestModule nearest(trace, event_of_id, call_of_event);
  for (uint32_t call = 0; call < calls.size(); ++call) {
    const uint32_t parent =
        nearest.of(trace.python[trace.events.detail[calls[call].event]].parent_id);
    if (parent != call) calls[call].parent = parent;
  }
  for (uint32_t call = 0; call < calls.size(); ++call)
    if (calls[call].parent != kNoRow) calls[calls[call].parent].children.push_back(call);
  return calls;
}

class Hierarchy {
 public:
  explicit Hierarchy(const Trace& trace)
      : trace_(trace), calls_(module_calls(trace)), shape_of_(calls_.size(), kNoRow) {}

  // Distinct roots in order of first appearance.
  std::vector<uint32_t> roots() {
    std::vector<uint32_t> distinct;
    std::unordered_set<uint32_t> seen;
    for (uint32_t call = 0; call < calls_.size(); ++call) {
      if (calls_[call].parent != kNoRow) continue;
      const uint32_t shape = shape_of(call);
      if (seen.insert(shape).second) distinct.push_back(shape);
    }
    return distinct;
  }
  const Shape& shape(uint32_t id) const { return shapes_[id]; }

 private:
  // Post-order without recursion: Python stacks can be deep.
  uint32_t shape_of(uint32_t root) {
    std::vector<std::pair<uint32_t, size_t>> open{{root, 0}};
    while (!open.empty()) {
      auto& [call, next] = open.back();
      if (next < calls_[call].children.size()) {
        const uint32_t child = calls_[call].children[next++];
        open.emplace_back(child, 0);
        continue;
      }
      close(call);
      open.pop_back();
    }
    return shape_of_[root];
  }

  void close(uint32_t call) {
    const uint32_t event = calls_[call].event;
    Shape shape{key_of(trace_, event), {}};
    for (const uint32_t child : calls_[call].children) shape.children.push_back(shape_of_[child]);
    const auto [place, is_new] = ids_.try_emplace(shape, static_cast<uint32_t>(shapes_.size()));
    if (is_new) shapes_.push_back(std::move(shape));
    shape_of_[call] = place->second;
  }

  const Trace& trace_;
  std::vector<ModuleCall> calls_;
  std::vector<uint32_t> shape_of_;
  std::vector<Shape> shapes_;
  std::map<Shape, uint32_t> ids_;
};

std::map<ModuleKey, ModuleStat> module_stats(const Trace& trace, const CallForest& forest,
                                             const std::vector<NodeTimes>& times,
                                             const std::vector<bool>& lost) {
  std::map<ModuleKey, ModuleStat> stats;
  for (uint32_t node = 0; node < forest.nodes.size(); ++node) {
    if (forest.nodes[node].kind != NodeKind::kModule || (!lost.empty() && lost[node])) continue;
    const uint32_t event = forest.nodes[node].event;
    ModuleStat& stat = stats[key_of(trace, event)];
    const Ticks length = forest.nodes[node].end - forest.nodes[node].start;
    ++stat.occurrences;
    stat.host_total += length;
    stat.host_self += times[node].host_self;
    stat.device_total += times[node].device_total;
    stat.device_self += times[node].device_self;  // of calls the module made itself
    forest.for_each_child(node, [&](uint32_t child) {
      if (forest.nodes[child].kind != NodeKind::kOperator) return;
      ++stat.operators;
      stat.device_self += times[child].device_total;
    });
  }
  return stats;
}

void set_figures(ModuleNode& node, const ModuleStat& stat) {
  node.occurrences = stat.occurrences;
  node.operators = stat.operators;
  node.host_total = stat.host_total;
  node.host_self = stat.host_self;
  node.device_total = stat.device_total;
  node.device_self = stat.device_self;
  node.average = (stat.device_total > 0 ? stat.device_total : stat.host_total) /
                 static_cast<double>(stat.occurrences);
}

ModuleNode make_node(const Trace& trace, const Hierarchy& hierarchy,
                     const std::map<ModuleKey, ModuleStat>& stats, uint32_t shape, int depth) {
  const ModuleKey key = hierarchy.shape(shape).key;
  ModuleNode node;
  std::string_view name = trace.strings[key.name];
  if (name.substr(0, kPrefix.size()) == kPrefix) name.remove_prefix(kPrefix.size());
  node.name = name;
  node.id = key.id;
  if (const auto found = stats.find(key); found != stats.end()) set_figures(node, found->second);
  if (depth < kMaxModuleDepth)
    for (const uint32_t child : hierarchy.shape(shape).children)
      node.children.push_back(make_node(trace, hierarchy, stats, child, depth + 1));
  return node;
}

// "[pl][module]torch.nn.Linear: layer1.0" lies in "layer1"; what no range names is only a branch.
class LightningModules {
 public:
  LightningModules(const Trace& trace, const std::map<ModuleKey, ModuleStat>& stats) {
    for (const auto& [key, stat] : stats) {
      std::string_view name = trace.strings[key.name];
      const size_t colon = name.find(": ");
      name.remove_prefix(colon == name.npos ? kLightningModule.size() : colon + 2);
      add(std::string(name), stat);
    }
  }

  std::vector<ModuleNode> take() { return list(roots_, 0); }

 private:
  struct Branch {
    ModuleNode node;
    std::map<std::string, size_t> children;
  };

  void add(const std::string& dotted, const ModuleStat& stat) {
    std::map<std::string, size_t>* level = &roots_;
    size_t at = 0;
    for (size_t from = 0, depth = 0; depth < size_t{kMaxModuleDepth}; ++depth) {
      const size_t dot = std::min(dotted.find('.', from), dotted.size());
      const auto [place, is_new] = level->try_emplace(dotted.substr(0, dot), branches_.size());
      at = place->second;
      if (is_new) {
        branches_.emplace_back();
        branches_.back().node.name = dotted.substr(0, dot);
      }
      level = &branches_[at].children;
      if (dot == dotted.size()) break;
      from = dot + 1;
    }
    set_figures(branches_[at].node, stat);
  }

  std::vector<ModuleNode> list(const std::map<std::string, size_t>& level, int depth) {
    std::vector<ModuleNode> nodes;
    for (const auto& [name, at] : level) {
      ModuleNode node = branches_[at].node;
      if (depth < kMaxModuleDepth) node.children = list(branches_[at].children, depth + 1);
      nodes.push_back(std::move(node));
    }
    return nodes;
  }

  std::deque<Branch> branches_;  // places in it stay
  std::map<std::string, size_t> roots_;
};

}  // namespace

std::vector<ModuleNode> build_modules(const Trace& trace, const Clock&, const CallForest& forest,
                                      const std::vector<NodeTimes>& times,
                                      const std::vector<bool>& lost) {
  const std::map<ModuleKey, ModuleStat> stats = module_stats(trace, forest, times, lost);
  if (trace.framework == kLightning) return LightningModules(trace, stats).take();
  Hierarchy hierarchy(trace);
  std::vector<ModuleNode> roots;
  for (const uint32_t shape : hierarchy.roots())
    roots.push_back(make_node(trace, hierarchy, stats, shape, 0));
  std::stable_sort(roots.begin(), roots.end(),
                   [](const ModuleNode& a, const ModuleNode& b) { return a.name < b.name; });
  return roots;
}

}  // namespace camshaft::trace
