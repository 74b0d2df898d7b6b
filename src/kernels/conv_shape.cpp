// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv_shape.h"

#include <algorithm>

namespace camshaft::kernels {
namespace {

int64_t at(const ir::Ints& values, size_t index, int64_t otherwise) {
  return index < values.size() ? values[index] : otherwise;
}

// Padding before a dimension; `total` is what SAME needs in all.
int64_t pad_before(const ir::ConvolutionAttrs& attrs, size_t dim, int64_t total) {
  switch (attrs.padding_mode) {
    case ir::PaddingMode::kSameUpper:
      return std::max<int64_t>(total, 0) / 2;
    case ir::PaddingMode::kSameLower:
      return (std::max<int64_t>(total, 0) + 1) / 2;
    default:
      return at(attrs.pre_padding, dim, 0);
  }
}

struct Axis {
  int64_t in, out, kernel, stride, dilation, pad;
};

// Spatial dimension `dim` of `rank` - 2; dimension -1 of a 1-D problem is the height that is not
// there.
Axis axis_of(const ir::ConvolutionAttrs& attrs, std::span<const int64_t> x,
             std::span<const int64_t> w, std::span<const int64_t> y, int dim, bool transposed) {
  if (dim < 0) return {1, 1, 1, 1, 1, 0};
  const size_t d = static_cast<size_t>(dim);
  Axis axis{x[d + 2], y[d + 2], w[d + 2], at(attrs.stride, d, 1), at(attrs.dilation, d, 1), 0};
  const int64_t reach = (axis.kernel - 1) * axis.dilation + 1;
  if (!transposed) {
    axis.pad = pad_before(attrs, d, (axis.out - 1) * axis.stride + reach - axis.in);
  } else {
    const int64_t full = (axis.in - 1) * axis.stride + reach + at(attrs.output_padding, d, 0);
    // An explicit output shape sets the crop: ONNX gives SAME_UPPER the smaller half first. What
    // reaches beyond the taps is added at the end.
    const int64_t total = std::max<int64_t>(full - axis.out, 0);
    if (attrs.padding_mode == ir::PaddingMode::kSameUpper)
      axis.pad = total / 2;
    else if (attrs.padding_mode == ir::PaddingMode::kSameLower || !attrs.output_shape.empty())
      axis.pad = total - total / 2;
    else
      axis.pad = at(attrs.pre_padding, d, 0);
  }
  return axis;
}

bool fill(const ir::ConvolutionAttrs& attrs, std::span<const int64_t> x, std::span<const int64_t> w,
          std::span<const int64_t> y, bool transposed, ConvShape& shape) {
  if (x.size() != y.size() || x.size() != w.size() || x.size() < 3 || x.size() > 4) return false;
  const int spatial = static_cast<int>(x.size()) - 2;
  const Axis high = axis_of(attrs, x, w, y, spatial - 2, transposed);
  const Axis wide = axis_of(attrs, x, w, y, spatial - 1, transposed);
  shape = {.batch = x[0],
           .groups = attrs.groups,
           .ic = x[1],
           .ih = high.in,
           .iw = wide.in,
           .oc = y[1],
           .oh = high.out,
           .ow = wide.out,
           .kh = high.kernel,
           .kw = wide.kernel,
           .sh = high.stride,
           .sw = wide.stride,
           .dh = high.dilation,
           .dw = wide.dilation,
           .pad_top = high.pad,
           .pad_left = wide.pad};
  if (shape.groups < 1 || shape.ic % shape.groups != 0 || shape.oc % shape.groups != 0)
    return false;
  return transposed ? w[0] == shape.ic && w[1] == shape.group_oc()
                    : w[0] == shape.oc && w[1] == shape.group_ic();
}

}  // namespace

bool conv_shape(const ir::ConvolutionAttrs& attrs, std::span<const int64_t> x,
                std::span<const int64_t> w, std::span<const int64_t> y, ConvShape& shape) {
  return fill(attrs, x, w, y, false, shape);
}

bool deconv_shape(const ir::ConvolutionAttrs& attrs, std::span<const int64_t> x,
                  std::span<const int64_t> w, std::span<const int64_t> y, ConvShape& shape) {
  return fill(attrs, x, w, y, true, shape);
}

bool has_symmetric_weights(const Problem& problem) {
  return problem.inputs[1].type == DataType::kInt8 &&
         problem.layer->as<ir::ConvolutionAttrs>().w_zero_point == 0;
}

}  // namespace camshaft::kernels
