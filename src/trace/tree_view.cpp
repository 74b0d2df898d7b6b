// SPDX-License-Identifier: Apache-2.0
#include "trace/tree_view.h"

#include <algorithm>
#include <charconv>

namespace camshaft::trace {
namespace {

TreeKind tree_kind(const Trace& trace, const Node& node) {
  switch (node.kind) {
    case NodeKind::kRoot: return TreeKind::kRoot;
    case NodeKind::kStep: return TreeKind::kStep;
    case NodeKind::kPythonOp: return TreeKind::kPythonOp;
    case NodeKind::kModule: return TreeKind::kModule;
    case NodeKind::kCollective: return TreeKind::kAnnotation;
    case NodeKind::kDataLoader: return TreeKind::kDataLoader;
    case NodeKind::kOptimizer: return TreeKind::kOptimizer;
    case NodeKind::kOperator: break;
  }
  (void)trace;
  return TreeKind::kOperator;
}

Value tid_value(const Trace& trace, uint32_t track) {
  const std::string_view text = trace.strings[trace.tracks[track].tid];
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (trace.tracks[track].tid_is_number && error == std::errc() && end == text.data() + text.size()) return number;
  return std::string(text);
}

}  // namespace

TreeView build_tree_view(const Profile& profile) {
  TreeView view;
  const CallForest& forest = profile.forest;
  if (forest.threads.empty()) {
    view.nodes.push_back({"CallTreeRoot", TreeKind::kRoot, 0, 0, kNoRow, {}});
    return view;
  }
  const ThreadTree& thread = forest.threads.front();
  view.tid = tid_value(profile.trace, thread.track);
  const uint32_t end = forest.nodes[thread.root].subtree_end;
  for (uint32_t node = thread.root; node < end; ++node) {
    const Node& from = forest.nodes[node];
    TreeNode to;
    to.name = from.event == kNoRow ? "CallTreeRoot" : profile.trace.name_of(from.event);
    to.kind = tree_kind(profile.trace, from);
    to.start = from.start;
    to.end = from.end;
    to.node = node;
    view.nodes.push_back(std::move(to));
    if (node != thread.root) view.nodes[from.parent - thread.root].children.push_back(node - thread.root);
  }
  return view;
}

}  // namespace camshaft::trace
