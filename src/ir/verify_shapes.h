// SPDX-License-Identifier: Apache-2.0
// verify() checks what a graph must be; this, that its tensors are what its layers make: every
// layer's types and shapes are inferred again and compared. For tests of passes.
#pragma once

#include "ir/graph.h"

namespace camshaft::ir {

// `is_body`: in a branch that is never taken layers may contradict each other.
Status verify_shapes(const Graph& graph, bool is_body = false);

}  // namespace camshaft::ir
