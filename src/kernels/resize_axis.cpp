// SPDX-License-Identifier: Apache-2.0
#include "kernels/resize_axis.h"

#include <algorithm>
#include <cmath>

namespace camshaft::kernels {

using ir::CoordinateTransform;

ResizeAxis resize_axis(const ir::ResizeAttrs& attrs, int d, int64_t input, int64_t output) {
  ResizeAxis axis{.input = input, .output = output};
  const bool has_scales = !attrs.scales.empty();
  const auto in = static_cast<double>(input), out = static_cast<double>(output);
  axis.scale = has_scales ? attrs.scales[static_cast<size_t>(d)] : out / in;
  axis.length = has_scales ? axis.scale * in : out;
  return axis;
}

double source_coordinate(const ir::ResizeAttrs& attrs, const ResizeAxis& axis, int64_t k) {
  const double x = static_cast<double>(k), last = static_cast<double>(axis.input - 1);
  switch (attrs.transform) {
    case CoordinateTransform::kHalfPixel:
      return (x + 0.5) / axis.scale - 0.5;
    case CoordinateTransform::kPytorchHalfPixel:
      return axis.length > 1 ? (x + 0.5) / axis.scale - 0.5 : -0.5;
    case CoordinateTransform::kAlignCorners:
      return axis.length == 1 ? 0 : x * last / (axis.length - 1);
    case CoordinateTransform::kAsymmetric:
      return x / axis.scale;
    case CoordinateTransform::kHalfPixelSymmetric: {
      const double adjustment = static_cast<double>(axis.output) / axis.length;
      return static_cast<double>(axis.input) / 2 * (1 - adjustment) + (x + 0.5) / axis.scale - 0.5;
    }
    case CoordinateTransform::kTfCropAndResize:
      if (axis.output == 1) return 0.5 * (axis.roi_start + axis.roi_end) * last;
      return axis.roi_start * last +
             x * (axis.roi_end - axis.roi_start) * last / static_cast<double>(axis.output - 1);
  }
  return x;
}

int64_t nearest_position(const ir::ResizeAttrs& attrs, const ResizeAxis& axis, double x) {
  double position = 0;
  switch (attrs.rounding) {
    case ir::NearestRounding::kRoundPreferFloor:
      position = std::ceil(x - 0.5);
      break;
    case ir::NearestRounding::kRoundPreferCeil:
      position = std::floor(x + 0.5);
      break;
    case ir::NearestRounding::kFloor:
      position = std::floor(x);
      break;
    case ir::NearestRounding::kCeil:
      position = std::ceil(x);
      break;
  }
  return static_cast<int64_t>(std::clamp(position, 0.0, static_cast<double>(axis.input - 1)));
}

}  // namespace camshaft::kernels
