// SPDX-License-Identifier: Apache-2.0
// The call tree of a profile's first thread as the diff compares it: with backward passes of
// modules put in.
#pragma once

#include <memory>
#include <span>
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
  Ticks device_total = 0;
  uint32_t children_from = 0, child_count = 0;  // in TreeView::child_list
};

struct TreeView {
  std::vector<TreeNode> nodes;  // [0] is the root
  std::vector<std::unique_ptr<std::string>> names;

  std::vector<uint32_t> child_list;  // of all nodes, those of one side by side

  std::span<const uint32_t> children(uint32_t parent) const {
    return std::span(child_list).subspan(nodes[parent].children_from, nodes[parent].child_count);
  }
};

// A thread id as the file writes it: number or text.
Value thread_id(const Trace& trace, uint32_t track);

// Made on first use, then kept: a comparison of large traces has no time for it.
const TreeView& tree_view(const Profile& profile);

}  // namespace camshaft::trace
