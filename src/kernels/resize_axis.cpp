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

namespace {

// A coordinate between two inputs is one or the other: of the scale 0.6 number 3 is at 5 in floats,
// as ONNX Runtime and PyTorch compute them, and below 5 in doubles.
double coordinate_of_floats(const ir::ResizeAttrs& attrs, const ResizeAxis& axis, int64_t k) {
  const auto x = static_cast<float>(k), scale = static_cast<float>(axis.scale);
  switch (attrs.transform) {
    case CoordinateTransform::kAsymmetric:
      return x / scale;
    case CoordinateTransform::kHalfPixel:
      return (x + 0.5f) / scale - 0.5f;
    case CoordinateTransform::kPytorchHalfPixel:
      return axis.length > 1 ? (x + 0.5f) / scale - 0.5f : -0.5f;
    default:
      return source_coordinate(attrs, axis, k);
  }
}

}  // namespace

int64_t nearest_position(const ir::ResizeAttrs& attrs, const ResizeAxis& axis, int64_t k) {
  const double x = coordinate_of_floats(attrs, axis, k);
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

namespace {

// Weight of a tap at `distance`.
double filter(const ir::ResizeAttrs& attrs, double distance) {
  const double t = std::abs(distance), a = attrs.cubic_coefficient;
  if (attrs.mode == ir::ResizeMode::kLinear) return std::max(0.0, 1 - t);
  if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  if (t < 2) return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a;
  return 0;
}

struct TapRange {
  int64_t first, last;
};

TapRange range_of(const std::vector<ResizeTap>& taps) {
  TapRange range{INT64_MAX, INT64_MIN};
  for (const ResizeTap& tap : taps) {
    if (tap.weight == 0) continue;
    range.first = std::min(range.first, tap.position);
    range.last = std::max(range.last, tap.position);
  }
  return range.first > range.last ? TapRange{0, 0} : range;
}

}  // namespace

std::vector<ResizeTap> resize_taps(const ir::ResizeAttrs& attrs, const ResizeAxis& axis,
                                   int64_t k) {
  if (attrs.mode == ir::ResizeMode::kNearest) return {{nearest_position(attrs, axis, k), 1.0}};
  const double x = source_coordinate(attrs, axis, k);
  const double shrink = attrs.antialias ? std::min(axis.scale, 1.0) : 1.0;
  const double reach = (attrs.mode == ir::ResizeMode::kLinear ? 1 : 2) / shrink;
  const auto first = static_cast<int64_t>(std::floor(x - reach)) + 1,
             last = static_cast<int64_t>(std::ceil(x + reach)) - 1;
  std::vector<ResizeTap> taps;
  double sum = 0;
  for (int64_t p = first; p <= last; ++p) {
    const bool inside = p >= 0 && p < axis.input;
    const double weight =
        !inside && attrs.exclude_outside ? 0 : filter(attrs, (static_cast<double>(p) - x) * shrink);
    taps.push_back({std::clamp<int64_t>(p, 0, axis.input - 1), weight});
    sum += weight;
  }
  if ((attrs.antialias || attrs.exclude_outside) && sum != 0)
    for (ResizeTap& tap : taps) tap.weight /= sum;
  return taps;
}

int64_t count_taps(const ir::ResizeAttrs& attrs, const ResizeAxis& axis) {
  int64_t count = 1;
  for (int64_t k = 0; k < axis.output; ++k) {
    const TapRange range = range_of(resize_taps(attrs, axis, k));
    count = std::max(count, range.last - range.first + 1);
  }
  return count;
}

void fill_taps(const ir::ResizeAttrs& attrs, const ResizeAxis& axis, int64_t count, int32_t* first,
               float* weights) {
  std::vector<double> sums(static_cast<size_t>(count));
  for (int64_t k = 0; k < axis.output; ++k, weights += count) {
    const std::vector<ResizeTap> taps = resize_taps(attrs, axis, k);
    const int64_t from = std::min(range_of(taps).first, axis.input - count);
    first[k] = static_cast<int32_t>(from);
    std::fill(sums.begin(), sums.end(), 0.0);
    for (const ResizeTap& tap : taps)
      if (tap.weight != 0) sums[static_cast<size_t>(tap.position - from)] += tap.weight;
    std::copy(sums.begin(), sums.end(), weights);
  }
}

}  // namespace camshaft::kernels
