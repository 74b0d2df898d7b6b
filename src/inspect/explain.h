// SPDX-License-Identifier: Apache-2.0
// Which records of the optimizer belong to a layer, and a layer's explanation as JSON.
#pragma once

#include <span>
#include <string>

#include "camshaft/inspector.h"

namespace camshaft::inspect {

// A record concerns a layer if all it names went into that layer.
bool concerns(const RewriteInfo& record, const LayerInfo& layer);

// {"Name", "Rewrites": […], "Candidates": […]}, see Inspector::explain_json().
std::string explain_json(const LayerInfo& layer, std::span<const RewriteInfo> rewrites);

}  // namespace camshaft::inspect
