// SPDX-License-Identifier: Apache-2.0
#include "trace/tree_view.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

namespace camshaft::trace {
namespace {

TreeKind tree_kind(const Node& node) {
  switch (node.kind) {
    case NodeKind::kRoot:
      return TreeKind::kRoot;
    case NodeKind::kStep:
      return TreeKind::kStep;
    case NodeKind::kPythonOp:
      return TreeKind::kPythonOp;
    case NodeKind::kModule:
      return TreeKind::kModule;
    case NodeKind::kCollective:
      return TreeKind::kAnnotation;
    case NodeKind::kDataLoader:
      return TreeKind::kDataLoader;
    case NodeKind::kOptimizer:
      return TreeKind::kOptimizer;
    case NodeKind::kOperator:
      break;
  }
  return TreeKind::kOperator;
}

// Copies parts of the call forest, backward nodes in their places.
class Copier {
 public:
  Copier(const Profile& profile, TreeView& view) : profile_(profile), view_(view) {
    for (const BackwardPlace& place : profile.backward.places)
      places_[place.parent].push_back(place);
  }

  // The subtree at `root`; `leave_taken`: without what moved below backward nodes.
  uint32_t copy(uint32_t root, bool leave_taken) {
    const CallForest& forest = profile_.forest;
    const auto first = static_cast<uint32_t>(view_.nodes.size());
    std::unordered_map<uint32_t, uint32_t> copy_of;  // only of the nodes that get backward children
    std::vector<uint32_t> open;
    for (uint32_t node = root; node < forest.nodes[root].subtree_end; ++node) {
      if (leave_taken && !profile_.backward.taken.empty() && profile_.backward.taken[node]) {
        node = forest.nodes[node].subtree_end - 1;
        continue;
      }
      while (!open.empty() && forest.nodes[view_.nodes[open.back()].node].subtree_end <= node)
        open.pop_back();
      const auto made = add_copy(node);
      if (!open.empty()) {
        add_backward(forest.nodes[node].parent, node, open.back());
        append_child(open.back(), made);
      }
      if (leave_taken && places_.count(node) > 0) copy_of[node] = made;
      open.push_back(made);
    }
    for (const auto& [node, made] : copy_of) add_backward(node, kNoRow, made);
    return first;
  }

  // Children side by side; device times of backward nodes, which are those of what they hold.
  void finish() {
    view_.child_list.reserve(view_.nodes.size());
    for (uint32_t node = 0; node < view_.nodes.size(); ++node) {
      const auto from = static_cast<uint32_t>(view_.child_list.size());
      for (uint32_t child = links_[node].first; child != kNoRow; child = links_[child].next)
        view_.child_list.push_back(child);
      view_.nodes[node].children_from = from;
      view_.nodes[node].child_count = static_cast<uint32_t>(view_.child_list.size()) - from;
    }
    for (size_t k = backward_.size(); k > 0; --k) {  // inner ones come after outer ones
      TreeNode& node = view_.nodes[backward_[k - 1]];
      for (const uint32_t child : view_.children(backward_[k - 1]))
        node.device_total += view_.nodes[child].device_total;
    }
  }

 private:
  struct Link {
    uint32_t first = kNoRow, last = kNoRow, next = kNoRow;  // next: sibling
  };

  uint32_t add(TreeNode node) {
    view_.nodes.push_back(node);
    links_.emplace_back();
    return static_cast<uint32_t>(view_.nodes.size() - 1);
  }
  void append_child(uint32_t parent, uint32_t child) {
    Link& above = links_[parent];
    (above.first == kNoRow ? above.first : links_[above.last].next) = child;
    above.last = child;
  }

  uint32_t add_copy(uint32_t node) {
    const Node& from = profile_.forest.nodes[node];
    TreeNode to;
    to.name = from.event == kNoRow ? "CallTreeRoot" : profile_.trace.name_of(from.event);
    to.kind = tree_kind(from);
    to.start = from.start;
    to.end = from.end;
    to.node = node;
    if (is_table_operator(profile_.trace, from)) to.op = profile_.trace.events.name[from.event];
    to.device_total = profile_.times[node].device_total;
    return add(to);
  }

  void add_backward(uint32_t parent, uint32_t before, uint32_t into) {
    const auto found = places_.find(parent);
    if (found == places_.end()) return;
    for (const BackwardPlace& place : found->second) {
      if (place.before != before) continue;
      const uint32_t made = copy_backward(place.node);
      append_child(into, made);
    }
  }

  uint32_t copy_backward(uint32_t k) {
    const BackwardNode& from = profile_.backward.nodes[k];
    TreeNode to;
    to.name = *view_.names.emplace_back(std::make_unique<std::string>(from.name));
    to.kind = TreeKind::kBackward;
    to.start = from.start;
    to.end = from.end;
    const uint32_t made = add(to);
    backward_.push_back(made);
    std::vector<uint32_t> children;
    for (const uint32_t engine : from.engine_nodes) children.push_back(copy(engine, false));
    for (const uint32_t child : from.children) children.push_back(copy_backward(child));
    std::stable_sort(children.begin(), children.end(), [&](uint32_t a, uint32_t b) {
      return view_.nodes[a].start < view_.nodes[b].start;
    });
    for (const uint32_t child : children) append_child(made, child);
    return made;
  }

  const Profile& profile_;
  TreeView& view_;
  std::unordered_map<uint32_t, std::vector<BackwardPlace>> places_;
  std::vector<Link> links_;         // of view_.nodes
  std::vector<uint32_t> backward_;  // nodes that are no copies
};

}  // namespace

Value thread_id(const Trace& trace, uint32_t track) {
  const std::string_view text = trace.strings[trace.tracks[track].tid];
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (trace.tracks[track].tid_is_number && error == std::errc() && end == text.data() + text.size())
    return number;
  return std::string(text);
}

namespace {

TreeView build(const Profile& profile) {
  TreeView view;
  const CallForest& forest = profile.forest;
  if (forest.threads.empty()) {
    view.nodes.emplace_back();
    view.nodes.back().name = "CallTreeRoot";
    view.nodes.back().kind = TreeKind::kRoot;
    return view;
  }
  const ThreadTree& thread = forest.threads.front();
  view.nodes.reserve(forest.nodes[thread.root].subtree_end - thread.root);
  Copier copier(profile, view);
  copier.copy(thread.root, true);
  copier.finish();
  return view;
}

}  // namespace

const TreeView& tree_view(const Profile& profile) {
  std::call_once(profile.tree_made,
                 [&] { profile.tree = std::make_shared<const TreeView>(build(profile)); });
  return *profile.tree;
}

}  // namespace camshaft::trace
