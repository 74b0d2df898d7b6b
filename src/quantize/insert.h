// SPDX-License-Identifier: Apache-2.0
// Puts the Q/DQ pairs of a placement into a graph, before the passes see it: implicit int8.
#pragma once

#include <vector>

#include "quantize/scales.h"

namespace camshaft::quantize {

// `scales`: one per use of placement.activations, 0: none. A layer that lacks the scale of its data
// input stays float, weights included; its name is given back.
Result<std::vector<std::string>> insert_quantization(ir::Graph& graph, const Placement& placement,
                                                     const std::vector<float>& scales);

}  // namespace camshaft::quantize
