// SPDX-License-Identifier: Apache-2.0
// Convolution and transposed convolution over any number of spatial dimensions: the sum over input
// channel and kernel position, accumulated in double; the innermost loop runs along a row of the
// output (convolution) or input (transposed).
#include <algorithm>

#include "ir/infer.h"
#include "kernels/reference/access.h"
#include "kernels/reference/tables.h"

namespace camshaft::kernels::reference {
namespace {

// The geometry of one problem; spatial dimensions only.
struct Geometry {
  Ints input, kernel, output, stride, dilation, pre_padding;
  int64_t batch, in_channels, out_channels, groups;

  int64_t input_size() const { return count_of(input); }
  int64_t kernel_size() const { return count_of(kernel); }
  int64_t output_size() const { return count_of(output); }
  size_t rank() const { return input.size(); }
};

Ints or_ones(const Ints& given, size_t rank) {
  return given.empty() ? Ints(rank, 1) : given;
}

Result<Geometry> geometry_of(const KernelArgs& args, const ir::ConvolutionAttrs& attrs,
                             bool transposed) {
  const TensorView &x = args.inputs[0], &w = args.inputs[1], &y = args.outputs[0];
  if (x.rank < 3 || w.rank != x.rank || y.rank != x.rank)
    return make_error(ErrorCode::kInvalidArgument,
                      "ranks of input ({}), weights ({}) and output ({}) disagree", x.rank, w.rank,
                      y.rank);
  Geometry g;
  g.batch = x.extents[0];
  g.in_channels = x.extents[1];
  g.out_channels = y.extents[1];
  g.groups = attrs.groups;
  const size_t rank = x.rank - 2;
  g.input.assign(x.extents + 2, x.extents + x.rank);
  g.kernel.assign(w.extents + 2, w.extents + w.rank);
  g.output.assign(y.extents + 2, y.extents + y.rank);
  g.stride = or_ones(attrs.stride, rank);
  g.dilation = or_ones(attrs.dilation, rank);
  const int64_t per_group = w.extents[1] * g.groups;
  if (g.groups < 1 || g.in_channels % g.groups || g.out_channels % g.groups ||
      per_group != (transposed ? g.out_channels : g.in_channels) ||
      w.extents[0] != (transposed ? g.in_channels : g.out_channels))
    return make_error(ErrorCode::kInvalidArgument,
                      "channels {} → {} in {} groups do not fit weights of {} × {}", g.in_channels,
                      g.out_channels, g.groups, w.extents[0], w.extents[1]);
  for (size_t d = 0; d < rank; ++d) {
    const int64_t pre = attrs.pre_padding.empty() ? 0 : attrs.pre_padding[d];
    const int64_t post = attrs.post_padding.empty() ? 0 : attrs.post_padding[d];
    const bool same = attrs.padding_mode == ir::PaddingMode::kSameUpper ||
                      attrs.padding_mode == ir::PaddingMode::kSameLower;
    if (!transposed) {
      g.pre_padding.push_back(ir::resolve_window(attrs.padding_mode, g.input[d], g.kernel[d],
                                                 g.stride[d], g.dilation[d], pre, post)
                                  .pre_padding);
    } else if (same || !attrs.output_shape.empty()) {
      // The padding follows from the output's extent; an odd one goes to the end for SAME_UPPER,
      // else to the beginning.
      const int64_t extra = attrs.output_padding.empty() ? 0 : attrs.output_padding[d];
      const int64_t total = g.stride[d] * (g.input[d] - 1) + extra +
                            (g.kernel[d] - 1) * g.dilation[d] + 1 - g.output[d];
      const int64_t whole = std::max<int64_t>(total, 0);
      g.pre_padding.push_back(
          attrs.padding_mode == ir::PaddingMode::kSameUpper ? whole / 2 : whole - whole / 2);
    } else {
      g.pre_padding.push_back(pre);
    }
  }
  return g;
}

// Leaves out dimensions of one position all through (a convolution along time written as N × 1), so
// that the innermost loop has something to run over.
void drop_unit_dimensions(Geometry& g) {
  for (size_t d = g.rank(); d-- > 0 && g.rank() > 1;) {
    if (g.input[d] != 1 || g.kernel[d] != 1 || g.output[d] != 1 || g.pre_padding[d] != 0) continue;
    for (Ints* list : {&g.input, &g.kernel, &g.output, &g.stride, &g.dilation, &g.pre_padding})
      list->erase(list->begin() + static_cast<int64_t>(d));
  }
}

// Calls body(position of the outer dimensions in `moving`, in `other`) for each combination where
// both are inside: the coordinate in `other` is moving * stride + tap * dilation - pre_padding.
template <class Body>
void for_each_outer(const Geometry& g, const Ints& moving, const Ints& other,
                    std::span<const int64_t> tap, const Body& body) {
  const size_t outer = g.rank() - 1;
  for_each_index(std::span(moving).first(outer), [&](const Extents& index) {
    int64_t from = 0, to = 0;
    for (size_t d = 0; d < outer; ++d) {
      const int64_t coordinate = index[d] * g.stride[d] + tap[d] * g.dilation[d] - g.pre_padding[d];
      if (coordinate < 0 || coordinate >= other[d]) return;
      from = from * moving[d] + index[d];
      to = to * other[d] + coordinate;
    }
    body(from, to);
  });
}

// The range of the innermost moving coordinate for which the other one is inside, and the other's
// coordinate at 0.
struct RowRange {
  int64_t first, last, base;
};
RowRange row_range(const Geometry& g, int64_t moving, int64_t other, int64_t tap) {
  const size_t d = g.rank() - 1;
  const int64_t base = tap * g.dilation[d] - g.pre_padding[d], stride = g.stride[d];
  const int64_t first = base < 0 ? (-base + stride - 1) / stride : 0;
  const int64_t last = base >= other ? 0 : std::min(moving, (other - base + stride - 1) / stride);
  return {first, last, base};
}

template <class T>
void convolve_channel(const Geometry& g, const T* x, const T* w, double* y) {
  int64_t position = 0;
  const int64_t row = g.output.back(), in_row = g.input.back();
  for_each_index(g.kernel, [&](const Extents& tap) {
    const double weight = w[position++];
    const RowRange range = row_range(g, row, in_row, tap.back());
    for_each_outer(g, g.output, g.input, tap, [&](int64_t out, int64_t in) {
      double* to = y + out * row;
      const int64_t from = in * in_row + range.base;  // x may have no elements, and be null
      if (g.stride.back() == 1)
        for (int64_t k = range.first; k < range.last; ++k) to[k] += weight * x[from + k];
      else
        for (int64_t k = range.first; k < range.last; ++k)
          to[k] += weight * x[from + k * g.stride.back()];
    });
  });
}

template <class T>
void deconvolve_channel(const Geometry& g, const T* x, const T* w, double* y) {
  int64_t position = 0;
  const int64_t row = g.input.back(), out_row = g.output.back();
  for_each_index(g.kernel, [&](const Extents& tap) {
    const double weight = w[position++];
    const RowRange range = row_range(g, row, out_row, tap.back());
    for_each_outer(g, g.input, g.output, tap, [&](int64_t in, int64_t out) {
      const T* from = x + in * row;
      const int64_t to = out * out_row + range.base;
      for (int64_t k = range.first; k < range.last; ++k)
        y[to + k * g.stride.back()] += weight * from[k];
    });
  });
}

template <class T>
std::vector<double> convolve(const KernelArgs& args, const Geometry& g,
                             const ir::ConvolutionAttrs& attrs, bool transposed) {
  const auto load_from = [&args](size_t input, int64_t zero_point) {
    std::vector<T> values = load<T>(args.inputs[input]);
    if (zero_point != 0)
      for (T& value : values) value -= static_cast<T>(zero_point);
    return values;
  };
  const std::vector<T> x = load_from(0, attrs.zero_point), w = load_from(1, attrs.w_zero_point);
  const std::vector<double> bias = load<double>(input(args, 2));
  std::vector<double> y(g.batch * g.out_channels * g.output_size());
  const int64_t in_group = g.in_channels / g.groups, out_group = g.out_channels / g.groups;
  parallel(args, g.batch * g.out_channels, [&](int64_t task) {
    const int64_t n = task / g.out_channels, oc = task % g.out_channels, group = oc / out_group;
    double* out = y.data() + task * g.output_size();
    std::fill_n(out, g.output_size(), bias.empty() ? 0.0 : bias[oc]);
    for (int64_t c = 0; c < in_group; ++c) {
      const int64_t ic = group * in_group + c;
      const T* in = x.data() + (n * g.in_channels + ic) * g.input_size();
      if (transposed)
        deconvolve_channel(g, in, w.data() + (ic * out_group + oc % out_group) * g.kernel_size(),
                           out);
      else
        convolve_channel(g, in, w.data() + (oc * in_group + c) * g.kernel_size(), out);
    }
  });
  return y;
}

template <bool kTransposed>
Status convolution(const KernelArgs& args) {
  const auto& attrs = args.layer->as<ir::ConvolutionAttrs>();
  CAMSHAFT_ASSIGN(Geometry g, geometry_of(args, attrs, kTransposed));
  drop_unit_dimensions(g);
  const TensorView& y = args.outputs[0];
  if (y.elements() == 0) return ok_status();
  const bool wide = args.inputs[0].type == DataType::kDouble;
  std::vector<double> values = wide ? convolve<double>(args, g, attrs, kTransposed)
                                    : convolve<float>(args, g, attrs, kTransposed);
  CAMSHAFT_TRY(apply_epilogue(attrs.epilogue, values, extents_of(y),
                              args.inputs.subspan(std::min<size_t>(3, args.inputs.size()))));
  store(y, values);
  return ok_status();
}

}  // namespace

std::span<const KindRow> convolution_kinds() {
  static constexpr KindRow kRows[] = {
      {ir::LayerKind::kConvolution, {convolution<false>, nullptr}},
      {ir::LayerKind::kDeconvolution, {convolution<true>, nullptr}},
  };
  return kRows;
}

}  // namespace camshaft::kernels::reference
