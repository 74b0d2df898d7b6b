// SPDX-License-Identifier: Apache-2.0
// Shapes of layers that slide a window: convolution, deconvolution, pooling.
#include "ir/infer_internal.h"

namespace camshaft::ir {
namespace {

Status check_window(const Ints& kernel, const Ints& stride, const Ints& dilation, const Ints& pre,
                    const Ints& post, size_t spatial) {
  for (const Ints* list : {&kernel, &stride, &dilation, &pre, &post})
    if (list->size() != spatial)
      return invalid("the window has {} dimensions, the input {} spatial ones", list->size(),
                     spatial);
  for (size_t d = 0; d < spatial; ++d) {
    if (kernel[d] < 1 || stride[d] < 1 || dilation[d] < 1)
      return invalid("kernel {}, stride {} and dilation {} must be at least 1", kernel[d],
                     stride[d], dilation[d]);
    for (int64_t number : {kernel[d], stride[d], dilation[d], pre[d], post[d]})
      if (number > kMaxExtent || number < -kMaxExtent)
        return invalid("window parameter {} is out of range", number);
  }
  return ok_status();
}

Status check_positive(Inference& f, Dim extent, Dim input, int64_t kernel) {
  if (f.is_number(extent) && f.symbols.number(extent) < 1 && !(input == Dim(0)))
    return invalid("a window of {} does not fit into an extent of {}", kernel,
                   f.symbols.to_string(input));
  return ok_status();
}

// Weights: [outer, inner/groups, kernel…]; x: [N, C, spatial…].
Status check_weights(Inference& f, const ConvolutionAttrs& a) {
  const size_t spatial = a.kernel.size();
  if (spatial < 1 || spatial + 2 > kMaxRank) return invalid("{} spatial dimensions", spatial);
  if (!f.ranked(1) || f.rank(1) != spatial + 2)
    return invalid("weights must have {} dimensions", spatial + 2);
  if (f.ranked(0) && f.rank(0) != spatial + 2)
    return invalid("input {} must have {} dimensions", to_string(f.shape(0), f.symbols),
                   spatial + 2);
  CAMSHAFT_TRY(
      check_window(a.kernel, a.stride, a.dilation, a.pre_padding, a.post_padding, spatial));
  for (size_t d = 0; d < spatial; ++d) {
    if (!f.shape(1)[d + 2].is_known())
      return make_error(ErrorCode::kUnsupported, "weights {} whose kernel extents are not known",
                        to_string(f.shape(1), f.symbols));
    if (f.shape(1)[d + 2] != Dim(a.kernel[d]))
      return invalid("kernel {} does not match weights {}", a.kernel[d],
                     to_string(f.shape(1), f.symbols));
  }
  if (a.groups < 1 || a.groups > kMaxExtent) return invalid("{} groups", a.groups);
  return ok_status();
}

Status check_bias(Inference& f, Dim channels) {
  if (!f.ranked(2)) return ok_status();
  if (f.rank(2) != 1 || !compatible(f.shape(2)[0], channels, f.symbols))
    return invalid("bias {} does not match {} output channels", to_string(f.shape(2), f.symbols),
                   f.symbols.to_string(channels));
  return ok_status();
}

}  // namespace

Status infer_convolution(Inference& f) {
  const auto& a = f.layer.as<ConvolutionAttrs>();
  CAMSHAFT_TRY(f.require(2));
  CAMSHAFT_ASSIGN(const DataType type, product_type(f.in(0).type, f.in(1).type, a.type));
  CAMSHAFT_TRY(check_weights(f, a));
  const Shape& weights = f.shape(1);
  CAMSHAFT_TRY(check_bias(f, weights[0]));
  if (!f.ranked(0)) {
    Shape shape = f.unknown_shape(weights.size());
    shape[1] = weights[0];
    return f.give(type, shape);
  }
  const Shape& x = f.shape(0);
  if (!compatible(x[1], f.symbols.mul(weights[1], a.groups), f.symbols))
    return invalid("input {} and weights {} with {} groups do not match", to_string(x, f.symbols),
                   to_string(weights, f.symbols), a.groups);
  if (weights[0].is_known() && weights[0].extent() % a.groups != 0)
    return invalid("{} output channels cannot be divided into {} groups", weights[0].extent(),
                   a.groups);
  Shape shape = {x[0], weights[0]};
  for (size_t d = 0; d < a.kernel.size(); ++d) {
    shape.push_back(window_output(a.padding_mode, x[d + 2], a.kernel[d], a.stride[d], a.dilation[d],
                                  a.pre_padding[d], a.post_padding[d], f.symbols));
    CAMSHAFT_TRY(check_positive(f, shape.back(), x[d + 2], (a.kernel[d] - 1) * a.dilation[d] + 1));
  }
  return f.give(type, shape);
}

Status infer_deconvolution(Inference& f) {
  const auto& a = f.layer.as<ConvolutionAttrs>();
  CAMSHAFT_TRY(f.require(2));
  CAMSHAFT_ASSIGN(const DataType type, product_type(f.in(0).type, f.in(1).type, a.type));
  CAMSHAFT_TRY(check_weights(f, a));
  const Shape& weights = f.shape(1);
  const size_t spatial = a.kernel.size();
  const Dim channels = f.symbols.mul(weights[1], a.groups);
  CAMSHAFT_TRY(check_bias(f, channels));
  if (!a.output_padding.empty() && a.output_padding.size() != spatial)
    return invalid("output_padding has {} entries", a.output_padding.size());
  if (!a.output_shape.empty() && a.output_shape.size() != spatial)
    return invalid("output_shape has {} entries", a.output_shape.size());
  if (!f.ranked(0)) {
    Shape shape = f.unknown_shape(weights.size());
    shape[1] = channels;
    return f.give(type, shape);
  }
  const Shape& x = f.shape(0);
  if (!compatible(x[1], weights[0], f.symbols) ||
      (weights[0].is_known() && weights[0].extent() % a.groups != 0))
    return invalid("input {} and weights {} with {} groups do not match", to_string(x, f.symbols),
                   to_string(weights, f.symbols), a.groups);
  Shape shape = {x[0], channels};
  const bool same =
      a.padding_mode == PaddingMode::kSameUpper || a.padding_mode == PaddingMode::kSameLower;
  for (size_t d = 0; d < spatial; ++d) {
    if (!a.output_shape.empty()) {
      shape.push_back(f.symbols.constant(a.output_shape[d]));
    } else if (same) {
      shape.push_back(f.symbols.mul(x[d + 2], a.stride[d]));
    } else {
      const int64_t extra = (a.output_padding.empty() ? 0 : a.output_padding[d]) +
                            (a.kernel[d] - 1) * a.dilation[d] + 1 - a.pre_padding[d] -
                            a.post_padding[d] - a.stride[d];
      shape.push_back(
          f.symbols.add(f.symbols.mul(x[d + 2], a.stride[d]), f.symbols.constant(extra)));
    }
    CAMSHAFT_TRY(check_positive(f, shape.back(), x[d + 2], a.kernel[d]));
  }
  return f.give(type, shape);
}

Status infer_pooling(Inference& f) {
  const auto& a = f.layer.as<PoolingAttrs>();
  CAMSHAFT_TRY(f.require(1));
  const DataType type =
      is_quantized(f.in(0).type) && a.type != PoolingType::kMax ? DataType::kFloat : f.in(0).type;
  // Indices, wanted or not: a late step names no tensors.
  if (!f.ranked(0)) {
    CAMSHAFT_TRY(f.unranked(DataType::kInt64, 1));
    return f.unranked(type);
  }
  const Shape& x = f.shape(0);
  if (x.size() < 2 || (x.size() < 3 && !a.global))
    return invalid("input {} has no spatial dimensions", to_string(x, f.symbols));
  Shape shape = {x[0], x[1]};
  if (!a.global)
    CAMSHAFT_TRY(
        check_window(a.kernel, a.stride, a.dilation, a.pre_padding, a.post_padding, x.size() - 2));
  for (size_t d = 0; d + 2 < x.size(); ++d) {
    shape.push_back(a.global ? Dim(1)
                             : window_output(a.padding_mode, x[d + 2], a.kernel[d], a.stride[d],
                                             a.dilation[d], a.pre_padding[d], a.post_padding[d],
                                             f.symbols));
    if (!a.global)
      CAMSHAFT_TRY(
          check_positive(f, shape.back(), x[d + 2], (a.kernel[d] - 1) * a.dilation[d] + 1));
  }
  CAMSHAFT_TRY(f.give(DataType::kInt64, shape, 1));
  return f.give(type, shape);
}

}  // namespace camshaft::ir
