// SPDX-License-Identifier: Apache-2.0
// Layers that scale and shift each channel by constants.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace camshaft::passes {

// y = scale[c] * x + shift[c]
struct Affine {
  std::vector<float> scale, shift;
};

// What `layer` does to x along `axis`, if that is all it does.
std::optional<Affine> affine_of(const ir::Layer& layer, const ir::Tensor* x, size_t axis,
                                int64_t channels);

}  // namespace camshaft::passes
