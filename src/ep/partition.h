// SPDX-License-Identifier: Apache-2.0
// Which nodes of a graph can be one: the fewest sets of supported nodes such that no path leaves a
// set and comes back.
#pragma once

#include <cstddef>
#include <vector>

namespace camshaft::ep {

struct PartNode {
  std::vector<size_t> needs;  // producers; nodes are in topological order
  bool is_supported = false;
};

// Sets of supported nodes, in the order in which they can run, each in topological order.
std::vector<std::vector<size_t>> partition(const std::vector<PartNode>& nodes);

}  // namespace camshaft::ep
