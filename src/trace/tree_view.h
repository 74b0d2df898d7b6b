// SPDX-License-Identifier: Apache-2.0
// The call tree of a profile's first thread as the diff compares it: with backward passes of
// modules put in.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trace/profile.h"

namespace camshaft::trace {

enum class TreeKind : uint8_t {
  kRoot,
  kStep,
  kOperator,
  kPythonOp,
  kModule,
  kAnnotation,
  kDataLoader,
  kOptimizer,
  kBackward
};

struct TreeNode {
  std::string_view name;  // into the trace's strings or TreeView::names
  TreeKind kind = TreeKind::kOperator;
  Ticks start = 0, end = 0;
  uint32_t node = kNoRow;  // of the call forest; none for backward nodes
  StringId op = kNoRow;    // its name if it is an operator of the tables
  uint32_t first_child = kNoRow, last_child = kNoRow, next = kNoRow;  // next: sibling
};

struct TreeView {
  std::vector<TreeNode> nodes;  // [0] is the root
  std::vector<std::unique_ptr<std::string>> names;

  void append_child(uint32_t parent, uint32_t child) {
    TreeNode& above = nodes[parent];
    (above.first_child == kNoRow ? above.first_child : nodes[above.last_child].next) = child;
    above.last_child = child;
  }
  std::vector<uint32_t> children(uint32_t parent) const {
    std::vector<uint32_t> list;
    for (uint32_t child = nodes[parent].first_child; child != kNoRow; child = nodes[child].next)
      list.push_back(child);
    return list;
  }
};

// A thread id as the file writes it: number or text.
Value thread_id(const Trace& trace, uint32_t track);

// Made on first use, then kept: a comparison of large traces has no time for it.
const TreeView& tree_view(const Profile& profile);

}  // namespace camshaft::trace
