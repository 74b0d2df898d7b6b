// SPDX-License-Identifier: Apache-2.0
// The optimizer: every pass, in order.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "ir/rewriter.h"

namespace camshaft::passes {

struct PassRecord {
  std::vector<ir::RewriteRecord> rewrites;
  std::vector<std::pair<std::string, int>> layer_counts;  // "After vertical fusions", 153
};

// Runs the whole pipeline on the graph and on the bodies inside it. Logs in TensorRT's words.
Status optimize(ir::Graph& graph, PassRecord& record);

}  // namespace camshaft::passes
