// SPDX-License-Identifier: Apache-2.0
// A layer's explanation as JSON.
#pragma once

#include <span>
#include <string>

#include "camshaft/inspector.h"

namespace camshaft::inspect {

// {"Name", "Rewrites": […], "Candidates": […]}, see Inspector::explain_json(). `region`: null if
// the layer is in none.
std::string explain_json(const LayerInfo& layer, const RegionInfo* region,
                         std::span<const RewriteInfo> rewrites);

}  // namespace camshaft::inspect
