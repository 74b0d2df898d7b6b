// SPDX-License-Identifier: Apache-2.0
// The call tree of a profile's first thread as /tree and the diff show it: with backward passes of
// modules put in.
#pragma once

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
  bool is_annotation = false;
  Ticks start = 0, end = 0;
  uint32_t node = kNoRow;  // of the call forest; none for backward nodes
  uint32_t track = 0;
  std::vector<uint32_t> children;
};

struct TreeView {
  std::vector<TreeNode> nodes;  // [0] is the root
  std::vector<std::unique_ptr<std::string>> names;
  uint32_t track = 0;  // of the first thread
};

// A thread id as the file writes it: number or text.
Value thread_id(const Trace& trace, uint32_t track);

TreeView build_tree_view(const Profile& profile);

}  // namespace camshaft::trace
