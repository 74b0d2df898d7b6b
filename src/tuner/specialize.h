// SPDX-License-Identifier: Apache-2.0
// Symbols that can only have one value become that number, everywhere in a graph; bounds of others
// simplify what is computed from them.
#pragma once

#include "engine/engine.h"
#include "ir/graph.h"

namespace camshaft::tuner {

// Products and convolutions with weights say what an extent must be, whatever expression or
// run-time symbol it is so far: it becomes that number. (A run it does not fit is an error.) Gives
// how many.
int resolve_extents(ir::Graph& graph);

// Replaces the input symbols that all profiles fix to one value, and simplifies expressions by the
// ranges of the others. Gives how many were fixed.
int specialize(ir::Graph& graph, const std::vector<engine::Profile>& profiles);

}  // namespace camshaft::tuner
