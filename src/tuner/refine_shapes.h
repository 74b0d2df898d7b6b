// SPDX-License-Identifier: Apache-2.0
// Shapes inferred anew where more is known than when the network was imported: a profile has made
// numbers of symbols, and layers that compute extents (through floats, say) can be folded now.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "ir/rewriter.h"

namespace camshaft::tuner {

// Does nothing to a graph without extents that only running can tell. Layers that read a shape
// which is known now get it as an attribute.
void refine_shapes(ir::Graph& graph, std::vector<ir::RewriteRecord>* records);

}  // namespace camshaft::tuner
