// SPDX-License-Identifier: Apache-2.0
// Convolutions and pooling.
#include <algorithm>

#include "onnx/node.h"

namespace camshaft::onnx_import {
namespace {

// The window attributes convolutions and poolings share.
struct WindowAttributes {
  Ints kernel, stride, dilation, pre, post;
  ir::PaddingMode mode = ir::PaddingMode::kExplicit;
};

Status read_list(Node& node, const char* name, size_t spatial, int64_t fallback, Ints& list) {
  list = node.integers(name);
  if (list.empty()) list.assign(spatial, fallback);
  if (list.size() != spatial)
    return invalid("{} has {} entries for {} spatial dimensions", name, list.size(), spatial);
  return ok_status();
}

Status read_window(Node& node, size_t spatial, WindowAttributes& window) {
  CAMSHAFT_TRY(read_list(node, "strides", spatial, 1, window.stride));
  CAMSHAFT_TRY(read_list(node, "dilations", spatial, 1, window.dilation));
  Ints pads;
  CAMSHAFT_TRY(read_list(node, "pads", 2 * spatial, 0, pads));
  const std::string auto_pad = node.text("auto_pad", "NOTSET");
  if (auto_pad == "SAME_UPPER")
    window.mode = ir::PaddingMode::kSameUpper;
  else if (auto_pad == "SAME_LOWER")
    window.mode = ir::PaddingMode::kSameLower;
  else if (auto_pad != "NOTSET" && auto_pad != "VALID" && !auto_pad.empty())
    return invalid("auto_pad \"{}\"", auto_pad);
  if (auto_pad != "NOTSET" && !auto_pad.empty()) pads.assign(2 * spatial, 0);
  window.pre.assign(pads.begin(), pads.begin() + spatial);
  window.post.assign(pads.begin() + spatial, pads.end());
  return ok_status();
}

// Spatial rank and kernel from the weights (and kernel_shape, which must agree).
Status read_kernel(Node& node, const Tensor* weights, WindowAttributes& window) {
  if (!weights->has_rank) return unsupported("weights of unknown rank");
  const size_t rank = weights->shape.size();
  if (rank < 3) return invalid("weights of rank {}", rank);
  window.kernel = node.integers("kernel_shape");
  if (window.kernel.empty())
    for (size_t d = 2; d < rank; ++d) {
      const Dim extent = weights->shape[d];
      if (!extent.is_known())
        return unsupported("weights whose kernel size is not known: give kernel_shape");
      window.kernel.push_back(extent.extent());
    }
  if (window.kernel.size() != rank - 2)
    return invalid("kernel_shape has {} entries, the weights have rank {}", window.kernel.size(),
                   rank);
  return read_window(node, rank - 2, window);
}

ir::ConvolutionAttrs convolution_attrs(const WindowAttributes& window, int64_t groups) {
  ir::ConvolutionAttrs attrs;
  attrs.kernel = window.kernel;
  attrs.stride = window.stride;
  attrs.dilation = window.dilation;
  attrs.pre_padding = window.pre;
  attrs.post_padding = window.post;
  attrs.padding_mode = window.mode;
  attrs.groups = groups;
  return attrs;
}

Status import_conv(Node& node) {
  CAMSHAFT_TRY(node.require(2, 3));
  CAMSHAFT_ASSIGN(ir::ConvolutionAttrs attrs, read_convolution(node, node.input(1)));
  return node.emit(LayerKind::kConvolution, std::move(attrs), node.inputs());
}

// Turns auto_pad and output_shape into explicit paddings: for a transposed convolution they do not
// depend on more than the input.
Status pad_deconvolution(Node& node, ir::ConvolutionAttrs& attrs) {
  const Tensor& x = *node.input(0);
  const bool same_upper = attrs.padding_mode == ir::PaddingMode::kSameUpper;
  const bool same = same_upper || attrs.padding_mode == ir::PaddingMode::kSameLower;
  for (size_t d = 0; d < attrs.kernel.size(); ++d) {
    const int64_t extent = (attrs.kernel[d] - 1) * attrs.dilation[d] + 1 + attrs.output_padding[d];
    int64_t total = extent - attrs.stride[d];
    if (!attrs.output_shape.empty()) {
      if (!x.has_rank || d + 2 >= x.shape.size() || !x.shape[d + 2].is_known())
        return unsupported(
            "output_shape with an input of unknown extents: give pads and output_padding");
      total = std::max<int64_t>(
          attrs.stride[d] * (x.shape[d + 2].extent() - 1) + extent - attrs.output_shape[d], 0);
    } else if (!same) {
      continue;
    }
    const int64_t half = total >= 0 ? total / 2 : 0;
    attrs.pre_padding[d] = same_upper ? half : total - half;
    attrs.post_padding[d] = total - attrs.pre_padding[d];
    if (total < 0) {
      attrs.pre_padding[d] = 0;
      attrs.post_padding[d] = total;
    }
  }
  attrs.padding_mode = ir::PaddingMode::kExplicit;
  return ok_status();
}

Status import_conv_transpose(Node& node) {
  CAMSHAFT_TRY(node.require(2, 3));
  WindowAttributes window;
  CAMSHAFT_TRY(read_kernel(node, node.input(1), window));
  ir::ConvolutionAttrs attrs = convolution_attrs(window, node.integer("group", 1));
  const size_t spatial = window.kernel.size();
  CAMSHAFT_TRY(read_list(node, "output_padding", spatial, 0, attrs.output_padding));
  attrs.output_shape = node.integers("output_shape");
  if (attrs.output_shape.size() == spatial + 2)  // some exporters write batch and channels, too
    attrs.output_shape.erase(attrs.output_shape.begin(), attrs.output_shape.begin() + 2);
  if (!attrs.output_shape.empty() && attrs.output_shape.size() != spatial)
    return invalid("output_shape has {} entries for {} spatial dimensions",
                   attrs.output_shape.size(), spatial);
  for (const Ints* list :
       {&attrs.kernel, &attrs.stride, &attrs.dilation, &attrs.output_padding, &attrs.output_shape})
    for (int64_t number : *list)
      if (number < 0 || number > ir::kMaxExtent)
        return invalid("window parameter {} is out of range", number);
  CAMSHAFT_TRY(pad_deconvolution(node, attrs));
  return node.emit(LayerKind::kDeconvolution, std::move(attrs), node.inputs());
}

// --- pooling

Result<ir::PoolingAttrs> pooling_attrs(Node& node, ir::PoolingType type) {
  ir::PoolingAttrs attrs;
  attrs.type = type;
  WindowAttributes window;
  window.kernel = node.integers("kernel_shape");
  if (window.kernel.empty()) return invalid("attribute kernel_shape is missing");
  CAMSHAFT_TRY(read_window(node, window.kernel.size(), window));
  attrs.kernel = window.kernel;
  attrs.stride = window.stride;
  attrs.dilation = window.dilation;
  attrs.pre_padding = window.pre;
  attrs.post_padding = window.post;
  attrs.padding_mode = window.mode;
  if (node.flag("ceil_mode", false) && window.mode == ir::PaddingMode::kExplicit)
    attrs.padding_mode = ir::PaddingMode::kExplicitRoundUp;
  return attrs;
}

Status import_max_pool(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  CAMSHAFT_ASSIGN(ir::PoolingAttrs attrs, pooling_attrs(node, ir::PoolingType::kMax));
  attrs.column_major_indices = node.flag("storage_order", false);
  return node.emit(LayerKind::kPooling, std::move(attrs), node.inputs());
}

Status import_average_pool(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  CAMSHAFT_ASSIGN(ir::PoolingAttrs attrs, read_average_pooling(node));
  return node.emit(LayerKind::kPooling, std::move(attrs), node.inputs());
}

Status import_lp_pool(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  CAMSHAFT_ASSIGN(ir::PoolingAttrs attrs, pooling_attrs(node, ir::PoolingType::kLp));
  attrs.p = node.integer("p", 2);
  return node.emit(LayerKind::kPooling, std::move(attrs), node.inputs());
}

template <ir::PoolingType type>
Status import_global_pool(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  ir::PoolingAttrs attrs;
  attrs.type = type;
  attrs.global = true;
  if (type == ir::PoolingType::kLp) attrs.p = node.integer("p", 2);
  return node.emit(LayerKind::kPooling, std::move(attrs), node.inputs());
}

}  // namespace

Result<ir::ConvolutionAttrs> read_convolution(Node& node, const Tensor* weights) {
  WindowAttributes window;
  CAMSHAFT_TRY(read_kernel(node, weights, window));
  return convolution_attrs(window, node.integer("group", 1));
}

Result<ir::PoolingAttrs> read_average_pooling(Node& node) {
  CAMSHAFT_ASSIGN(ir::PoolingAttrs attrs, pooling_attrs(node, ir::PoolingType::kAverage));
  attrs.count_includes_padding = node.flag("count_include_pad", false);
  return attrs;
}

std::span<const OperatorRow> convolution_operators() {
  static constexpr OperatorRow kOperators[] = {
      {"Conv", import_conv},
      {"ConvTranspose", import_conv_transpose},
      {"MaxPool", import_max_pool},
      {"AveragePool", import_average_pool},
      {"LpPool", import_lp_pool},
      {"GlobalMaxPool", import_global_pool<ir::PoolingType::kMax>},
      {"GlobalAveragePool", import_global_pool<ir::PoolingType::kAverage>},
      {"GlobalLpPool", import_global_pool<ir::PoolingType::kLp>},
  };
  return kOperators;
}

}  // namespace camshaft::onnx_import
