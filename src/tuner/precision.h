// SPDX-License-Identifier: Apache-2.0
// 8 bits or float: a product of codes beside the same product of floats with its conversions, by
// time. Q/DQ fix what is rounded, not what a product computes in.
#pragma once

#include "ir/graph.h"
#include "ir/rewriter.h"
#include "tuner/selection.h"

namespace camshaft::tuner {

// Edits the graph where float wins; what was found is noted with the selector as a candidate of the
// layer, so that the engine can say why. Level 5 asks the clock whatever is predicted; random
// choices take every second float form.
Status choose_precision(ir::Graph& graph, Selector& selector, const BuildOptions& options,
                        std::vector<ir::RewriteRecord>* record);

}  // namespace camshaft::tuner
