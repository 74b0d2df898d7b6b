// SPDX-License-Identifier: Apache-2.0
// verify() checks what a graph must be; this, that its tensors are what its layers make: every
// layer's types and shapes are inferred again and compared. For tests of passes.
#pragma once

#include "ir/graph.h"

namespace camshaft::ir {

Status verify_shapes(const Graph& graph);

}  // namespace camshaft::ir
