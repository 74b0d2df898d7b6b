// SPDX-License-Identifier: Apache-2.0
// Two profiles side by side: their call trees aligned at steps, modules, optimizers and data
// loaders.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trace/profile.h"

namespace camshaft::trace {

// Names belong to the profiles, which must be kept as long as the comparison.
struct OperatorDelta {
  std::string_view name;
  StringId name_id = 0;
  int64_t calls = 0, kernel_calls = 0;
  Ticks host_total = 0, device_total = 0, host_self = 0, device_self = 0;
  std::vector<std::pair<std::string_view, int64_t>> kernels;
};

struct DiffSide {
  std::string_view name;
  Ticks host = 0, device = 0, total = 0;
  std::vector<OperatorDelta> operators;
  std::string json;  // all of the above
};

struct DiffNode {
  DiffSide left, right;
  std::vector<DiffNode> children;
};

DiffNode diff_profiles(const Profile& left, const Profile& right);

// All of it, or, with a limit, only the levels that fit into about so many bytes: a node with
// something left out says how many ("omitted") and at which path to ask for it ("path").
std::string diff_json(const DiffNode& root, size_t limit_bytes = 0);
// The node at "0-2-1" and one level below; "" when there is no such node.
std::string diff_node_json(const DiffNode& root, const std::string& path);

}  // namespace camshaft::trace
