// SPDX-License-Identifier: Apache-2.0
// The transformer blocks of a plan as regions: what TensorRT hands to its compiler of regions and
// shows as one layer. Facts about a finished plan; nothing runs differently for them.
#pragma once

#include <vector>

#include "engine/engine.h"

namespace camshaft::tuner {

// Largest connected runs of steps around attention: products, normalizations and embeddings, with
// what is pointwise or moves elements between them. A run has an attention and one of these more;
// pointwise and moving layers at its ends that border on layers of other kinds stay with those, so
// that convolution networks keep theirs. No path leaves a region and comes back.
std::vector<engine::Region> find_regions(const engine::Plan& plan);

}  // namespace camshaft::tuner
