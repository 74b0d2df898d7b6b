// SPDX-License-Identifier: Apache-2.0
// What values a layer's program can give, from the ranges of the codes it reads.
#pragma once

#include <cmath>

#include "ir/graph.h"

namespace camshaft::passes {

struct Interval {
  double low = -HUGE_VAL, high = HUGE_VAL;
};

// Of the program or epilogue before it is stored; everything where there is none.
Interval result_interval(const ir::Layer& layer);

// The program of a PointWise layer or the epilogue of a product; null: it has neither.
ir::Program* program_of(ir::Layer& layer);
const ir::Program* program_of(const ir::Layer& layer);
// First input of the layer that is one of its program's, and the number it has there.
size_t first_program_input(const ir::Layer& layer);
int program_value(const ir::Layer& layer, size_t index);

}  // namespace camshaft::passes
