// SPDX-License-Identifier: Apache-2.0
// --sparsity=force: of every four input channels the first two keep their weights.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/rewriter.h"

namespace camshaft::passes {

struct ForcedSparsity {
  struct Layer {
    std::string name;
    int64_t weights = 0, pruned = 0;
  };
  std::vector<Layer> layers;
  int64_t weights = 0, pruned = 0;
};

// Before all other passes, on the graph as imported and on the bodies inside it. Logs a line per
// layer and a warning.
ForcedSparsity sparsity_force(ir::Graph& graph, std::vector<ir::RewriteRecord>* records);

}  // namespace camshaft::passes
