// SPDX-License-Identifier: Apache-2.0
// Which extents of a graph only running can tell, and why: a line for the log and the build record.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "ir/rewriter.h"

namespace camshaft::tuner {

// One record for every layer that makes such an extent (layers behind it only hand it on), bodies
// included.
std::vector<ir::RewriteRecord> late_shapes(const ir::Graph& graph);

}  // namespace camshaft::tuner
