// SPDX-License-Identifier: Apache-2.0
// Dropout while training: one plain function for the reference and the kernels, so that all drop
// the same elements, whatever memory layout they lie in.
#pragma once

#include "kernels/kernel.h"

namespace camshaft::kernels {

// The generator's seed that the layer states; 0 where it states none: a run can be repeated.
uint32_t stated_seed(const ir::Layer& layer);

// The only element of a tensor of any type.
double number_in(const TensorView& view);

// y: elements of x, each 0 with probability `ratio`, else divided by 1 - ratio; drawn in the order
// of the indices. mask (bool, of x's extents; data may be null): which are kept. y may be x.
void drop_elements(const TensorView& x, double ratio, uint32_t seed, const TensorView& y,
                   const TensorView& mask);

}  // namespace camshaft::kernels
