// SPDX-License-Identifier: Apache-2.0
#include "ep/partition.h"

#include <algorithm>

namespace camshaft::ep {

// A node's level is how often a path to it comes back from unsupported nodes. A path between nodes
// of one level never left it, and sets feed only later ones.
std::vector<std::vector<size_t>> partition(const std::vector<PartNode>& nodes) {
  std::vector<size_t> levels(nodes.size(), 0);
  std::vector<std::vector<size_t>> parts;
  for (size_t k = 0; k < nodes.size(); ++k) {
    for (size_t producer : nodes[k].needs) {
      const bool comes_back = nodes[k].is_supported && !nodes[producer].is_supported;
      levels[k] = std::max(levels[k], levels[producer] + (comes_back ? 1 : 0));
    }
    if (!nodes[k].is_supported) continue;
    if (parts.size() <= levels[k]) parts.resize(levels[k] + 1);
    parts[levels[k]].push_back(k);
  }
  std::erase_if(parts, [](const auto& part) { return part.empty(); });
  return parts;
}

}  // namespace camshaft::ep
