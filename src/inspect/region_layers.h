// SPDX-License-Identifier: Apache-2.0
// Regions as the inspector tells them, and the names and types their layers have in TensorRT's
// manner.
#pragma once

#include <vector>

#include "camshaft/inspector.h"
#include "engine/engine.h"
#include "runtime/context.h"

namespace camshaft::inspect {

// Gives every layer of a region its number and the name it has there: "__myl_GathMulAdd_myl0_3".
void name_region_layers(const engine::Plan& plan, std::vector<LayerInfo>& layers);

// `layers`: of collect_layers().
std::vector<RegionInfo> collect_regions(const engine::Engine& engine,
                                        const std::vector<LayerInfo>& layers,
                                        const runtime::Context* context);

}  // namespace camshaft::inspect
