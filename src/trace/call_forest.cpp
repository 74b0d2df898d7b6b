// SPDX-License-Identifier: Apache-2.0
// Nodes are sorted by (start, -end) and nested with a stack; then repeats are merged as autograd
// does.
#include "trace/call_forest.h"

#include <algorithm>
#include <unordered_map>

namespace camshaft::trace {
namespace {

// Times written as doubles lost up to a microsecond: neighbours may overlap by less than that.
constexpr int64_t kOverlapSlackNs = 1000;
// Python itself stops at 1000 frames. Deeper nodes of a hostile file become siblings, so that walks
// over the tree may recurse.
constexpr size_t kMaxCallDepth = 2000;

bool is_runtime(EventKind kind, const Semantics& semantics) {
  return kind == EventKind::kRuntime || (kind == EventKind::kDriver && !semantics.original);
}

struct RawThread {
  uint32_t track = 0;
  std::vector<Node> nodes;
};

class ForestBuilder {
 public:
  ForestBuilder(const Trace& trace, const Clock& clock, const Semantics& semantics,
                std::vector<uint32_t>& owner_of_runtime)
      : trace_(trace), clock_(clock), semantics_(semantics), owner_(owner_of_runtime) {
    owner_.assign(trace.events.size(), kNoRow);
    node_of_event_.assign(trace.events.size(), kNoRow);
  }

  CallForest build() {
    collect();
    if (semantics_.original) bind_by_id();
    for (RawThread& thread : threads_) nest(thread);
    if (semantics_.original)
      bind_root_runtimes();
    else
      bind_by_time();
    merge_repeats();
    return std::move(forest_);
  }

 private:
  void collect();
  void bind_by_id();
  void bind_by_time();
  void bind_root_runtimes();
  void nest(RawThread& thread);
  void merge_repeats();
  void place(Node node, std::vector<uint32_t>& open);
  bool id_decides(uint32_t node, uint32_t runtime) const;

  const Trace& trace_;
  const Clock& clock_;
  const Semantics& semantics_;
  std::vector<uint32_t>& owner_;  // event rows until nest(), then node indices
  std::vector<RawThread> threads_;
  std::vector<uint32_t> thread_of_track_;
  std::vector<uint32_t> node_of_event_;
  CallForest forest_;
};

void ForestBuilder::collect() {
  std::unordered_map<uint64_t, uint32_t> by_key;
  thread_of_track_.assign(trace_.tracks.size(), kNoRow);
  const EventColumns& events = trace_.events;
  for (uint32_t event = 0; event < events.size(); ++event) {
    NodeKind kind;
    if (!node_kind_of(trace_, event, semantics_, kind)) continue;
    const uint32_t track = events.track[event];
    if (thread_of_track_[track] == kNoRow) {
      const Track& names = trace_.tracks[track];
      const uint64_t key = semantics_.original ? names.tid : uint64_t{names.pid} << 32 | names.tid;
      const auto [place, is_new] = by_key.try_emplace(key, static_cast<uint32_t>(threads_.size()));
      if (is_new) threads_.push_back({track, {}});
      thread_of_track_[track] = place->second;
    }
    Node node;
    node.start = clock_.start(events.start_ns[event]);
    node.end = node.start + clock_.duration(events.duration_ns[event]);
    node.event = event;
    node.kind = kind;
    threads_[thread_of_track_[track]].nodes.push_back(node);
  }
  // Tracks without nodes may belong to a thread all the same (runtimes of "123" beside ops of 123).
  for (uint32_t track = 0; track < trace_.tracks.size(); ++track) {
    if (thread_of_track_[track] != kNoRow) continue;
    const Track& names = trace_.tracks[track];
    const uint64_t key = semantics_.original ? names.tid : uint64_t{names.pid} << 32 | names.tid;
    if (const auto found = by_key.find(key); found != by_key.end())
      thread_of_track_[track] = found->second;
  }
  forest_.thread_of_track = thread_of_track_;
}

// The original's rule: the first node with the runtime's external id takes it, wherever and
// whenever it ran.
void ForestBuilder::bind_by_id() {
  std::unordered_map<int64_t, uint32_t> first_node;
  for (RawThread& thread : threads_) {
    std::stable_sort(thread.nodes.begin(), thread.nodes.end(), [](const Node& a, const Node& b) {
      return a.start != b.start ? a.start < b.start : a.end > b.end;
    });
    for (const Node& node : thread.nodes)
      first_node.try_emplace(external_id_of(trace_, node.event), node.event);
  }
  const EventColumns& events = trace_.events;
  for (uint32_t event = 0; event < events.size(); ++event) {
    if (!is_runtime(events.kind[event], semantics_)) continue;
    const int64_t id = trace_.runtime[events.detail[event]].external_id;
    if (id == 0 && trace_.tracks[events.track[event]].tid_is_number)
      continue;  // goes to the root of its thread
    if (const auto found = first_node.find(id); found != first_node.end())
      owner_[event] = found->second;
  }
}

void ForestBuilder::place(Node node, std::vector<uint32_t>& open) {
  const auto slack = semantics_.loses() ? 0 : clock_.duration(kOverlapSlackNs);
  std::vector<Node>& nodes = forest_.nodes;
  while (open.size() > 1) {
    Node& top = nodes[open.back()];
    if (node.start >= top.end) {
      open.pop_back();
      continue;
    }
    if (node.end <= top.end) break;
    if (semantics_.loses()) {
      ++forest_.dropped_nodes;
      return;
    }
    if (node.end - top.end < slack && top.end - node.start >= slack) {
      node.end = top.end;  // a child that sticks out by a rounding error
      break;
    }
    open.pop_back();  // overlaps for real: a sibling, so that nothing is lost
  }
  if (open.size() >= kMaxCallDepth) open.pop_back();
  node.parent = open.back();
  node_of_event_[node.event] = static_cast<uint32_t>(nodes.size());
  open.push_back(static_cast<uint32_t>(nodes.size()));
  nodes.push_back(node);
}

void ForestBuilder::nest(RawThread& thread) {
  std::stable_sort(thread.nodes.begin(), thread.nodes.end(), [](const Node& a, const Node& b) {
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
  std::vector<Node>& nodes = forest_.nodes;
  const auto root = static_cast<uint32_t>(nodes.size());
  ThreadTree tree{thread.track, root, false};
  nodes.push_back({0, 0, kNoRow, kNoRow, 0, NodeKind::kRoot});
  std::vector<uint32_t> open{root};
  for (const Node& node : thread.nodes) {
    tree.has_step = tree.has_step || node.kind == NodeKind::kStep;
    place(node, open);
  }
  // Parents come before children: sizes are summed from the back.
  for (auto node = static_cast<uint32_t>(nodes.size()); node-- > root;) {
    nodes[node].subtree_end = std::max(nodes[node].subtree_end, node + 1);
    if (node != root) {
      Node& parent = nodes[nodes[node].parent];
      parent.subtree_end = std::max(parent.subtree_end, nodes[node].subtree_end);
    }
  }
  if (forest_.has_children(root)) {
    nodes[root].start = nodes[root + 1].start;
    forest_.for_each_child(root, [&](uint32_t child) { nodes[root].end = nodes[child].end; });
  }
  forest_.threads.push_back(tree);
  thread.nodes = {};
}

void ForestBuilder::bind_root_runtimes() {
  const EventColumns& events = trace_.events;
  for (uint32_t event = 0; event < events.size(); ++event) {
    if (owner_[event] != kNoRow) {
      owner_[event] = node_of_event_[owner_[event]];  // a dropped node takes its runtimes along
    } else if (is_runtime(events.kind[event], semantics_) &&
               trace_.runtime[events.detail[event]].external_id == 0 &&
               trace_.tracks[events.track[event]].tid_is_number) {
      const uint32_t thread = thread_of_track_[events.track[event]];
      if (thread != kNoRow) owner_[event] = forest_.threads[thread].root;
    }
  }
}

bool ForestBuilder::id_decides(uint32_t node, uint32_t runtime) const {
  const int64_t id = trace_.runtime[trace_.events.detail[runtime]].external_id;
  return id != kNoId && forest_.nodes[node].event != kNoRow &&
         external_id_of(trace_, forest_.nodes[node].event) == id;
}

// Innermost node in time on the runtime's own thread; an enclosing node with its external id goes
// first.
void ForestBuilder::bind_by_time() {
  const EventColumns& events = trace_.events;
  struct Cursor {
    uint32_t next = 0;
    std::vector<uint32_t> open;
  };
  std::vector<Cursor> cursors(forest_.threads.size());
  const auto end_of = [&](size_t thread) {
    return thread + 1 < forest_.threads.size() ? forest_.threads[thread + 1].root
                                               : static_cast<uint32_t>(forest_.nodes.size());
  };
  for (size_t thread = 0; thread < cursors.size(); ++thread)
    cursors[thread].next = forest_.threads[thread].root + 1;
  for (uint32_t event = 0; event < events.size(); ++event) {
    if (!is_runtime(events.kind[event], semantics_)) continue;
    const uint32_t thread = thread_of_track_[events.track[event]];
    if (thread == kNoRow) continue;
    Cursor& cursor = cursors[thread];
    const Ticks start = clock_.start(events.start_ns[event]);
    const Ticks end = start + clock_.duration(events.duration_ns[event]);
    for (; cursor.next < end_of(thread) && forest_.nodes[cursor.next].start <= start;
         ++cursor.next) {
      while (!cursor.open.empty() && forest_.nodes[cursor.open.back()].subtree_end <= cursor.next)
        cursor.open.pop_back();
      cursor.open.push_back(cursor.next);
    }
    // Runtimes come in time order, so a node that ended before this start is of no use any more.
    while (!cursor.open.empty() && forest_.nodes[cursor.open.back()].end <= start) {
      const Node& top = forest_.nodes[cursor.open.back()];
      if (top.end == start && top.start == start) break;  // an instant inside an instant
      cursor.open.pop_back();
    }
    uint32_t chosen = cursor.open.empty() ? kNoRow : cursor.open.back();
    for (auto open = cursor.open.rbegin(); open != cursor.open.rend(); ++open) {
      if (!id_decides(*open, event) || forest_.nodes[*open].end < end) continue;
      chosen = *open;
      break;
    }
    owner_[event] = chosen;
  }
}

// A node with one child of its own name takes over that child's children and runtimes; again until
// nothing changes.
void ForestBuilder::merge_repeats() {
  std::vector<Node>& nodes = forest_.nodes;
  std::vector<uint32_t> heir(nodes.size());  // the node that stands for this one
  std::vector<bool> gone(nodes.size(), false), replaced(nodes.size(), false);
  for (uint32_t node = 0; node < nodes.size(); ++node) heir[node] = node;
  for (uint32_t node = 0; node < nodes.size(); ++node) {
    if (gone[node] || nodes[node].kind != NodeKind::kOperator) continue;
    uint32_t child = node + 1;
    while (child < nodes[node].subtree_end && nodes[child].subtree_end == nodes[node].subtree_end &&
           nodes[child].kind == NodeKind::kOperator &&
           trace_.events.name[nodes[child].event] == trace_.events.name[nodes[node].event]) {
      gone[child] = true;
      heir[child] = node;
      replaced[child == node + 1 ? node : child - 1] =
          true;  // all but the last lose their own runtimes
      ++child;
    }
  }
  std::vector<uint32_t> moved(nodes.size() +
                              1);  // old index → new, of the next kept node for removed ones
  uint32_t kept = 0;
  for (uint32_t node = 0; node < nodes.size(); ++node) {
    moved[node] = kept;
    kept += gone[node] ? 0 : 1;
  }
  moved[nodes.size()] = kept;
  for (uint32_t& owner : owner_) {
    if (owner == kNoRow) continue;
    if (semantics_.original && replaced[owner])
      owner = kNoRow;
    else
      owner = moved[heir[owner]];
  }
  for (uint32_t node = 0; node < nodes.size(); ++node) {
    if (gone[node]) continue;
    Node copy = nodes[node];
    copy.subtree_end = moved[copy.subtree_end];
    if (copy.parent != kNoRow) copy.parent = moved[heir[copy.parent]];
    nodes[moved[node]] = copy;
  }
  nodes.resize(kept);
  for (ThreadTree& thread : forest_.threads) thread.root = moved[thread.root];
}

}  // namespace

CallForest build_call_forest(const Trace& trace, const Clock& clock, const Semantics& semantics,
                             std::vector<uint32_t>& owner_of_runtime) {
  return ForestBuilder(trace, clock, semantics, owner_of_runtime).build();
}

int64_t external_id_of(const Trace& trace, uint32_t event) {
  switch (trace.events.kind[event]) {
    case EventKind::kOperator:
    case EventKind::kAnnotation:
    case EventKind::kGpuAnnotation:
    case EventKind::kPythonOp:
      return trace.host[trace.events.detail[event]].external_id;
    default:
      return kNoId;
  }
}

bool node_kind_of(const Trace& trace, uint32_t event, const Semantics& semantics, NodeKind& kind) {
  const std::string_view name = trace.name_of(event);
  switch (trace.events.kind[event]) {
    case EventKind::kPythonOp:
      kind = NodeKind::kPythonOp;
      return true;
    case EventKind::kModule:
      kind = NodeKind::kModule;
      return trace.framework != kLightning;  // it has modules of its own
    case EventKind::kGpuAnnotation:
      if (!semantics.original) return false;
      [[fallthrough]];
    case EventKind::kAnnotation:
    case EventKind::kOperator:
      break;
    default:
      return false;
  }
  const bool is_operator = trace.events.kind[event] == EventKind::kOperator;
  const bool is_lightning =
      is_operator && name.substr(0, 4) == "[pl]" && trace.framework == kLightning;
  if (is_lightning && name.substr(0, kLightningModule.size()) == kLightningModule)
    kind = NodeKind::kModule;
  else if (is_lightning && name.substr(0, kLightningProfile.size()) == kLightningProfile)
    kind = NodeKind::kPythonOp;
  else if (is_step_name(name))
    kind = NodeKind::kStep;
  else if (is_data_loader_name(name))
    kind = NodeKind::kDataLoader;
  else if (is_optimizer_name(name))
    kind = NodeKind::kOptimizer;
  else if (is_operator)
    kind = NodeKind::kOperator;
  else if (!collective_library(name, semantics.dialect).empty())
    kind = NodeKind::kCollective;
  else
    return false;
  return true;
}

bool is_table_operator(const Trace& trace, const Node& node) {
  if (node.kind != NodeKind::kOperator) return false;
  const std::string_view name = trace.name_of(node.event);
  return name != "DataParallel.forward" && name != "DistributedDataParallel.forward" &&
         name.substr(0, 10) != "Optimizer.";
}

}  // namespace camshaft::trace
