// SPDX-License-Identifier: Apache-2.0
// Siblings that read one tensor (queries, keys and values; gate and up): one product or several, by
// time.
#pragma once

#include "ir/graph.h"
#include "ir/rewriter.h"
#include "tuner/selection.h"

namespace camshaft::tuner {

// Edits the graph where one product wins; the times of the form that lost are noted with the
// selector as a candidate. Random choices merge every second group.
Status choose_merging(ir::Graph& graph, Selector& selector, const BuildOptions& options,
                      std::vector<ir::RewriteRecord>* record);

}  // namespace camshaft::tuner
