// SPDX-License-Identifier: Apache-2.0
// The optimizer: every pass, in order.
#pragma once

#include <functional>
#include <vector>

#include "ir/graph.h"
#include "ir/rewriter.h"
#include "passes/pass_table.h"

namespace camshaft::passes {

struct PassRecord {
  std::vector<ir::RewriteRecord> rewrites;
  std::vector<std::pair<std::string, int>> layer_counts;  // "After vertical fusions", 153
};

// Is shown every graph (the network's, bodies of its loops) behind every pass that ran over it. An
// error ends the optimization.
using PassObserver = std::function<Status(const Pass& pass, int edits, const ir::Graph& graph)>;

// Runs the whole pipeline on the graph and on the bodies inside it. Logs in TensorRT's words.
Status optimize(ir::Graph& graph, PassRecord& record, const PassObserver& observer = nullptr);

}  // namespace camshaft::passes
