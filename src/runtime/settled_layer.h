// SPDX-License-Identifier: Apache-2.0
// Layers whose attributes are inputs that only running tells.
#pragma once

#include <memory>
#include <span>

#include "kernels/kernel.h"

namespace camshaft::runtime {

// A Slice or Resize whose range, sizes or scales are inputs, as one of x alone that gives `y`: what
// the inputs say now is in its attributes, where kernels look. Null: another kind, or numbers that
// are none of these (an error the layer itself will tell, a region of interest).
std::unique_ptr<ir::Layer> settled_layer(const ir::Layer& layer,
                                         std::span<const kernels::TensorView> inputs,
                                         const kernels::TensorView& y);

}  // namespace camshaft::runtime
