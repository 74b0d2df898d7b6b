// SPDX-License-Identifier: Apache-2.0
// For tests: random small networks of every layer kind the tuner treats specially.
#pragma once

#include <memory>

#include "ir/graph.h"

namespace camshaft::tuner {

// A network with one input "x" [batch, C, H, W]; the batch is a symbol if `dynamic_batch`.
std::unique_ptr<ir::Graph> random_graph(uint32_t seed, int layers, bool dynamic_batch);

}  // namespace camshaft::tuner
