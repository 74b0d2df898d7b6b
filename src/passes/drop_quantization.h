// SPDX-License-Identifier: Apache-2.0
// A network without its Q/DQ: what it is compared with when somebody asks what 8 bits cost.
#pragma once

#include "ir/graph.h"

namespace camshaft::passes {

// Before all passes, on the graph as imported and on the bodies inside it: Q followed by DQ goes,
// DQ of a constant becomes a constant of floats. Codes that anything but a DQ reads stay. How many
// DQ went.
int drop_quantization(ir::Graph& graph);

}  // namespace camshaft::passes
