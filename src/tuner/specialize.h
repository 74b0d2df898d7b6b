// SPDX-License-Identifier: Apache-2.0
// Symbols that can only have one value become that number, everywhere in a graph.
#pragma once

#include "engine/engine.h"
#include "ir/graph.h"

namespace camshaft::tuner {

// Replaces the input symbols that all profiles fix to one value. Gives how many.
int specialize(ir::Graph& graph, const std::vector<engine::Profile>& profiles);

}  // namespace camshaft::tuner
