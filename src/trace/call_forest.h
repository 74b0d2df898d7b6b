// SPDX-License-Identifier: Apache-2.0
// Who contains whom on the host: one tree per thread, all nodes in one array, each tree in
// pre-order. A node's subtree is the index range (node, subtree_end), so walking down needs no
// pointers.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/clock.h"
#include "trace/semantics.h"
#include "trace/trace.h"

namespace camshaft::trace {

enum class NodeKind : uint8_t {
  kRoot,
  kStep,
  kOperator,
  kPythonOp,
  kModule,
  kDataLoader,
  kOptimizer,
  kCollective,  // a user annotation that names one
};

struct Node {
  Ticks start = 0, end = 0;
  uint32_t event = kNoRow;  // row of Trace::events; none for roots
  uint32_t parent = kNoRow;
  uint32_t subtree_end = 0;
  NodeKind kind = NodeKind::kOperator;
};

struct ThreadTree {
  uint32_t track = 0;  // one track of the thread
  uint32_t root = 0;   // index of its root node
  bool has_step = false;
};

struct CallForest {
  std::vector<Node> nodes;
  std::vector<ThreadTree> threads;        // in order of first appearance
  std::vector<uint32_t> thread_of_track;  // index into threads, kNoRow: no nodes there
  uint64_t dropped_nodes = 0;             // overlapping others (original mode only)

  uint32_t first_child(uint32_t node) const { return node + 1; }
  bool has_children(uint32_t node) const { return nodes[node].subtree_end > node + 1; }

  template <class Visit>
  void for_each_child(uint32_t node, const Visit& visit) const {
    for (uint32_t child = node + 1; child < nodes[node].subtree_end;
         child = nodes[child].subtree_end)
      visit(child);
  }
  // Every node, children before parents, threads in their order.
  template <class Visit>
  void for_each_post_order(const Visit& visit) const {
    std::vector<uint32_t> open;
    for (uint32_t node = 0; node < nodes.size(); ++node) {
      while (!open.empty() && nodes[open.back()].subtree_end <= node) {
        visit(open.back());
        open.pop_back();
      }
      open.push_back(node);
    }
    for (; !open.empty(); open.pop_back()) visit(open.back());
  }
};

// What a tree node's event is, or that it is none.
bool node_kind_of(const Trace& trace, uint32_t event, const Semantics& semantics, NodeKind& kind);
int64_t external_id_of(const Trace& trace, uint32_t event);

// `owner_of_runtime` gets, for every event row that is a runtime call, the node it hangs on, else
// kNoRow; it is filled here because the original binds runtimes before it drops and merges nodes.
CallForest build_call_forest(const Trace& trace, const Clock& clock, const Semantics& semantics,
                             std::vector<uint32_t>& owner_of_runtime);

// True for operators the tables list: not the wrappers of whole models or steps.
bool is_table_operator(const Trace& trace, const Node& node);

}  // namespace camshaft::trace
