// SPDX-License-Identifier: Apache-2.0
// Slice and concat elimination: tensors that become parts of other tensors' memory, so that nothing
// is copied.
#pragma once

#include <unordered_map>

#include "engine/engine.h"
#include "tuner/plan_maker.h"

namespace camshaft::tuner {

// Decides for one graph whose tactics and formats are chosen. Marks eliminated layers' choices as
// views; says so in the log and the record unless `record` is null.
Views find_views(const ir::Graph& graph, Choices& choices, const runtime::Bindings& bindings,
                 int threads, std::vector<ir::RewriteRecord>* record);

}  // namespace camshaft::tuner
