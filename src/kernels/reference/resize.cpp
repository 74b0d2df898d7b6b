// SPDX-License-Identifier: Apache-2.0
// Resize: separable; per dimension every output coordinate has a list of taps (source position,
// weight).
#include <algorithm>
#include <limits>

#include "kernels/reference/access.h"
#include "kernels/reference/tables.h"
#include "kernels/resize_axis.h"

namespace camshaft::kernels::reference {
namespace {

using ir::CoordinateTransform;

struct DimensionTaps {
  std::vector<std::vector<ResizeTap>> taps;  // per output coordinate
  std::vector<bool> outside;                 // tf_crop_and_resize beyond the input
  bool is_identity = true;
};

DimensionTaps dimension_taps(const ir::ResizeAttrs& attrs, const ResizeAxis& d) {
  DimensionTaps result;
  result.is_identity = d.input == d.output;
  for (int64_t k = 0; k < d.output; ++k) {
    const double x = source_coordinate(attrs, d, k);
    const bool outside = attrs.transform == CoordinateTransform::kTfCropAndResize &&
                         (x < 0 || x > static_cast<double>(d.input - 1));
    result.outside.push_back(outside);
    result.taps.push_back(resize_taps(attrs, d, k));
    result.is_identity = result.is_identity && !outside && x == static_cast<double>(k);
  }
  return result;
}

// Resamples dimension `axis` of the row-major `values`; updates `extents`.
std::vector<double> resample(const std::vector<double>& values, Extents& extents, size_t axis,
                             const DimensionTaps& dimension) {
  const std::span<const int64_t> all(extents);
  const int64_t outer = count_of(all.first(axis)), inner = count_of(all.subspan(axis + 1)),
                count = extents[axis];
  const int64_t wanted = static_cast<int64_t>(dimension.taps.size());
  std::vector<double> result(outer * wanted * inner);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t k = 0; k < wanted; ++k) {
      double* to = result.data() + (o * wanted + k) * inner;
      for (const ResizeTap& tap : dimension.taps[k]) {
        if (tap.weight == 0) continue;
        const double* from = values.data() + (o * count + tap.position) * inner;
        for (int64_t i = 0; i < inner; ++i) to[i] += tap.weight * from[i];
      }
    }
  }
  extents[axis] = wanted;
  return result;
}

std::vector<ResizeAxis> dimensions_of(const KernelArgs& args, const ir::ResizeAttrs& attrs) {
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  std::vector<double> scales(attrs.scales.begin(), attrs.scales.end()),
      roi(attrs.roi.begin(), attrs.roi.end());
  if (scales.empty() && attrs.sizes.empty()) scales = load<double>(input(args, 2));
  if (roi.empty()) roi = load<double>(input(args, 1));
  std::vector<ResizeAxis> dimensions;
  const size_t rank = x.rank;
  for (size_t d = 0; d < rank; ++d) {
    const int64_t in = x.extents[d], out = y.extents[d];
    const double scale =
        scales.size() == rank ? scales[d] : static_cast<double>(out) / static_cast<double>(in);
    const double length =
        scales.size() == rank ? scale * static_cast<double>(in) : static_cast<double>(out);
    const bool has_roi = roi.size() == 2 * rank;
    dimensions.push_back(
        {in, out, scale, length, has_roi ? roi[d] : 0, has_roi ? roi[d + rank] : 1});
  }
  return dimensions;
}

Status resize(const KernelArgs& args) {
  const auto& attrs = args.layer->as<ir::ResizeAttrs>();
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  if (x.rank != y.rank) return make_error(ErrorCode::kInternal, "a resize cannot change the rank");
  if (y.elements() == 0) return ok_status();
  if (x.elements() == 0)
    return make_error(ErrorCode::kInvalidArgument, "an empty tensor cannot be resized");
  std::vector<double> values = load<double>(x);
  Extents extents = extents_of(x);
  std::vector<DimensionTaps> taps;
  const std::vector<ResizeAxis> dimensions = dimensions_of(args, attrs);
  for (size_t d = 0; d < dimensions.size(); ++d) {
    taps.push_back(dimension_taps(attrs, dimensions[d]));
    if (!taps[d].is_identity) values = resample(values, extents, d, taps[d]);
  }
  if (attrs.transform == CoordinateTransform::kTfCropAndResize) {
    size_t k = 0;
    for_each_index(extents, [&](const Extents& index) {
      bool outside = false;
      for (size_t d = 0; d < index.size(); ++d) outside = outside || taps[d].outside[index[d]];
      if (outside) values[k] = attrs.extrapolation_value;
      ++k;
    });
  }
  store(y, values);
  return ok_status();
}

}  // namespace

std::span<const KindRow> resize_kinds() {
  static constexpr KindRow kRows[] = {{ir::LayerKind::kResize, {resize, nullptr}}};
  return kRows;
}

}  // namespace camshaft::kernels::reference
