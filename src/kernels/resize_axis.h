// SPDX-License-Identifier: Apache-2.0
// Where the output coordinates of a Resize come from, one dimension at a time (ONNX Resize,
// coordinate_transformation_mode).
#pragma once

#include <cstdint>
#include <vector>

#include "ir/attrs.h"

namespace camshaft::kernels {

// One dimension of the problem. `length` is the output's extent before rounding: scale * input.
struct ResizeAxis {
  int64_t input = 1, output = 1;
  double scale = 1, length = 1, roi_start = 0, roi_end = 1;
};

// Dimension `d` of a Resize whose scales or sizes are attributes.
ResizeAxis resize_axis(const ir::ResizeAttrs& attrs, int d, int64_t input, int64_t output);

// The coordinate in the input of output coordinate k, not clamped.
double source_coordinate(const ir::ResizeAttrs& attrs, const ResizeAxis& axis, int64_t k);
// The input position nearest mode takes for it, clamped to the input.
int64_t nearest_position(const ir::ResizeAttrs& attrs, const ResizeAxis& axis, int64_t k);

// Output coordinate k is a sum of inputs, times their weights: nearest, linear, cubic, with and
// without antialiasing. Weights may be 0; positions are clamped to the input and may repeat.
struct ResizeTap {
  int64_t position;
  double weight;
};
std::vector<ResizeTap> resize_taps(const ir::ResizeAttrs& attrs, const ResizeAxis& axis, int64_t k);

// The same for all output coordinates as tables: `count` inputs from first[k] on, inside the input,
// times weights[k * count …].
int64_t count_taps(const ir::ResizeAttrs& attrs, const ResizeAxis& axis);
void fill_taps(const ir::ResizeAttrs& attrs, const ResizeAxis& axis, int64_t count, int32_t* first,
               float* weights);

}  // namespace camshaft::kernels
