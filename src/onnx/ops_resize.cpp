// SPDX-License-Identifier: Apache-2.0
// Resize and Upsample.
#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "onnx/node.h"

namespace camshaft::onnx_import {
namespace {

template <class E>
struct Choice {
  std::string_view text;
  E value;
};

constexpr Choice<ir::ResizeMode> kResizeModes[] = {{"nearest", ir::ResizeMode::kNearest},
                                                   {"linear", ir::ResizeMode::kLinear},
                                                   {"bilinear", ir::ResizeMode::kLinear},
                                                   {"cubic", ir::ResizeMode::kCubic}};
constexpr Choice<ir::CoordinateTransform> kTransforms[] = {
    {"half_pixel", ir::CoordinateTransform::kHalfPixel},
    {"pytorch_half_pixel", ir::CoordinateTransform::kPytorchHalfPixel},
    {"align_corners", ir::CoordinateTransform::kAlignCorners},
    {"asymmetric", ir::CoordinateTransform::kAsymmetric},
    {"half_pixel_symmetric", ir::CoordinateTransform::kHalfPixelSymmetric},
    {"tf_crop_and_resize", ir::CoordinateTransform::kTfCropAndResize}};
constexpr Choice<ir::NearestRounding> kRoundings[] = {
    {"round_prefer_floor", ir::NearestRounding::kRoundPreferFloor},
    {"round_prefer_ceil", ir::NearestRounding::kRoundPreferCeil},
    {"floor", ir::NearestRounding::kFloor},
    {"ceil", ir::NearestRounding::kCeil}};

template <class E, size_t N>
Status read_choice(Node& node, const char* name, const char* fallback,
                   const Choice<E> (&choices)[N], E& value) {
  const std::string text = node.text(name, fallback);
  for (const Choice<E>& choice : choices)
    if (choice.text == text) {
      value = choice.value;
      return ok_status();
    }
  return unsupported("{} \"{}\"", name, text);
}

// Output extents that follow from the scales, if they can be told.
Shape scaled_sizes(Node& node, const ir::ResizeAttrs& attrs) {
  const Shape& x = node.input(0)->shape;
  ir::Layer probe;
  probe.kind = LayerKind::kResize;
  probe.attrs = attrs;
  const std::vector<ir::InferInput> inputs = {ir::infer_input(node.input(0), node.symbols())};
  const auto inferred = ir::infer(probe, inputs, node.symbols());
  if (!inferred.ok() || inferred.value()[0].shape.size() != x.size()) return {};
  for (Dim extent : inferred.value()[0].shape)
    if (node.symbols().depends_on_runtime(extent)) return {};
  return inferred.value()[0].shape;
}

// The standard aligns corners with the fractional extent that a scale gives; PyTorch, which wrote
// most of such nodes, and ONNX Runtime round the extent first.
void warn_of_fractions(Node& node, const ir::ResizeAttrs& attrs) {
  if (attrs.transform != ir::CoordinateTransform::kAlignCorners) return;
  const Shape& x = node.input(0)->shape;
  for (size_t d = 0; d < x.size(); ++d) {
    if (!x[d].is_known()) continue;
    const double extent = static_cast<double>(attrs.scales[d]) * static_cast<double>(x[d].extent());
    if (std::abs(extent - std::round(extent)) < 1e-3) continue;
    log(Severity::kWarning,
        "node {}: corners are aligned as the standard says, for {:.4g} elements of {}; PyTorch and "
        "ONNX Runtime do it for {:.0f}: give sizes instead of scales to have theirs",
        node.name(), extent, x[d].extent(), std::floor(extent));
    return;
  }
}

Status emit_scaled(Node& node, ir::ResizeAttrs attrs, const std::vector<double>& scales,
                   const Ints& axes) {
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  if (scales.size() != axes.size())
    return invalid("{} scales for {} dimensions", scales.size(), axes.size());
  attrs.scales.assign(rank, 1.0f);
  for (size_t k = 0; k < axes.size(); ++k) {
    if (!(scales[k] > 0) || scales[k] > 1e6) return invalid("scale {}", scales[k]);
    attrs.scales[axes[k]] = static_cast<float>(scales[k]);
  }
  attrs.sizes = scaled_sizes(node, attrs);
  warn_of_fractions(node, attrs);
  return node.emit(LayerKind::kResize, std::move(attrs), {node.input(0)});
}

// One scale for all axes, so that the result is not larger (or not smaller) than `sizes`.
Status keep_aspect_ratio(Node& node, ir::ResizeAttrs& attrs, const std::vector<Dim>& sizes,
                         const Ints& axes, bool not_larger) {
  const Shape& x = node.input(0)->shape;
  double scale = 0;
  for (size_t k = 0; k < axes.size(); ++k) {
    if (!sizes[k].is_known() || !x[axes[k]].is_known() || x[axes[k]] == Dim(0))
      return unsupported("keep_aspect_ratio_policy with extents that are not known");
    const double ratio =
        static_cast<double>(sizes[k].extent()) / static_cast<double>(x[axes[k]].extent());
    scale = k == 0 ? ratio : not_larger ? std::min(scale, ratio) : std::max(scale, ratio);
  }
  attrs.scales.assign(x.size(), 1.0f);
  for (int64_t axis : axes) {
    attrs.scales[axis] = static_cast<float>(scale);
    attrs.sizes[axis] = static_cast<int64_t>(
        std::min(std::floor(scale * static_cast<double>(x[axis].extent()) + 0.5), 1e15));
  }
  return ok_status();
}

Status emit_sized(Node& node, ir::ResizeAttrs attrs, const std::vector<Dim>& sizes,
                  const Ints& axes) {
  CAMSHAFT_TRY(node.rank(0).status());
  if (sizes.size() != axes.size())
    return invalid("{} sizes for {} dimensions", sizes.size(), axes.size());
  attrs.sizes = node.input(0)->shape;
  for (size_t k = 0; k < axes.size(); ++k) attrs.sizes[axes[k]] = sizes[k];
  const std::string policy = node.text("keep_aspect_ratio_policy", "stretch");
  if (policy == "not_larger" || policy == "not_smaller")
    CAMSHAFT_TRY(keep_aspect_ratio(node, attrs, sizes, axes, policy == "not_larger"));
  else if (policy != "stretch")
    return invalid("keep_aspect_ratio_policy \"{}\"", policy);
  return node.emit(LayerKind::kResize, std::move(attrs), {node.input(0)});
}

Status read_attributes(Node& node, ir::ResizeAttrs& attrs) {
  CAMSHAFT_TRY(read_choice(node, "mode", "nearest", kResizeModes, attrs.mode));
  CAMSHAFT_TRY(read_choice(node, "coordinate_transformation_mode", "half_pixel", kTransforms,
                           attrs.transform));
  CAMSHAFT_TRY(read_choice(node, "nearest_mode", "round_prefer_floor", kRoundings, attrs.rounding));
  attrs.cubic_coefficient = node.real("cubic_coeff_a", -0.75f);
  attrs.exclude_outside = node.flag("exclude_outside", false);
  attrs.extrapolation_value = node.real("extrapolation_value", 0);
  attrs.antialias = node.flag("antialias", false);
  node.ignore({"keep_aspect_ratio_policy"});
  return ok_status();
}

Result<Ints> read_resized_axes(Node& node) {
  Ints axes;
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  for (int64_t given : node.integers("axes")) {
    CAMSHAFT_ASSIGN(const int64_t axis, node.axis(given, rank));
    if (std::find(axes.begin(), axes.end(), axis) != axes.end())
      return invalid("axis {} is given twice", given);
    axes.push_back(axis);
  }
  if (axes.empty())
    for (size_t d = 0; d < rank; ++d) axes.push_back(static_cast<int64_t>(d));
  return axes;
}

Status read_roi(Node& node, ir::ResizeAttrs& attrs, const Ints& axes) {
  if (attrs.transform != ir::CoordinateTransform::kTfCropAndResize) return ok_status();
  const std::optional<std::vector<double>> roi = node.reals(1);
  if (!roi) return invalid("the region of interest is missing");
  if (roi->size() != 2 * axes.size())
    return invalid("the region of interest has {} entries for {} dimensions", roi->size(),
                   axes.size());
  const size_t rank = node.input(0)->shape.size();
  attrs.roi.assign(2 * rank, 0.0f);
  std::fill(attrs.roi.begin() + rank, attrs.roi.end(), 1.0f);
  for (size_t k = 0; k < axes.size(); ++k) {
    attrs.roi[axes[k]] = static_cast<float>((*roi)[k]);
    attrs.roi[axes[k] + rank] = static_cast<float>((*roi)[k + axes.size()]);
  }
  return ok_status();
}

bool is_empty(const Tensor* tensor) {
  return tensor == nullptr ||
         (tensor->has_rank && tensor->shape.size() == 1 && tensor->shape[0] == Dim(0));
}

// Opset 10 and Upsample: no choice of coordinates; nearest takes the pixel before.
Status import_old_resize(Node& node, const std::vector<double>& scales) {
  ir::ResizeAttrs attrs;
  CAMSHAFT_TRY(read_choice(node, "mode", "nearest", kResizeModes, attrs.mode));
  attrs.transform = ir::CoordinateTransform::kAsymmetric;
  const bool shrinks =
      std::any_of(scales.begin(), scales.end(), [](double scale) { return scale < 1; });
  attrs.rounding = shrinks ? ir::NearestRounding::kCeil : ir::NearestRounding::kFloor;
  CAMSHAFT_ASSIGN(const Ints axes, read_resized_axes(node));
  return emit_scaled(node, std::move(attrs), scales, axes);
}

Status import_upsample(Node& node) {
  if (node.opset() < 9) {
    CAMSHAFT_TRY(node.require(1, 1));
    std::vector<double> scales;
    for (float scale : node.floats("scales")) scales.push_back(scale);
    if (node.has_attribute("height_scale"))
      scales = {1, 1, node.real("height_scale", 1), node.real("width_scale", 1)};
    return import_old_resize(node, scales);
  }
  CAMSHAFT_TRY(node.require(2, 2));
  const std::optional<std::vector<double>> scales = node.reals(1);
  if (scales) return import_old_resize(node, *scales);
  ir::ResizeAttrs attrs;
  CAMSHAFT_TRY(read_choice(node, "mode", "nearest", kResizeModes, attrs.mode));
  attrs.transform = ir::CoordinateTransform::kAsymmetric;
  attrs.rounding = ir::NearestRounding::kFloor;
  return node.emit(LayerKind::kResize, std::move(attrs), {node.input(0), nullptr, node.input(1)});
}

// A list for some axes, computed at run time, becomes one for all: `rest` has the values of the
// other axes.
Result<Tensor*> spread_over_axes(Node& node, const std::string& step, Tensor* list, Tensor* rest,
                                 const Ints& axes) {
  const int64_t extents[] = {static_cast<int64_t>(axes.size())};
  return node.add(step, LayerKind::kScatter, ir::ScatterAttrs{},
                  {rest, node.int_constant(step + "_axes", extents, axes), list});
}

// Region, scales or sizes are not known yet: the layer reads them when it runs.
Status emit_at_run_time(Node& node, ir::ResizeAttrs attrs, const Ints& axes, bool by_scales) {
  if (node.text("keep_aspect_ratio_policy", "stretch") != "stretch")
    return unsupported("sizes computed at run time together with keep_aspect_ratio_policy");
  const size_t rank = node.input(0)->shape.size();
  Tensor* roi =
      attrs.transform == ir::CoordinateTransform::kTfCropAndResize ? node.input(1) : nullptr;
  Tensor *scales = by_scales ? node.input(2) : nullptr,
         *sizes = by_scales ? nullptr : node.input(3);
  if (node.has_attribute("axes")) {
    if (roi != nullptr)
      return unsupported("a region of interest computed at run time together with axes");
    const int64_t extents[] = {static_cast<int64_t>(rank)};
    if (by_scales) {
      Tensor* ones = node.float_constant("ones", extents, std::vector<float>(rank, 1.0f));
      CAMSHAFT_ASSIGN(scales, spread_over_axes(node, "all_scales", scales, ones, axes));
    } else {
      CAMSHAFT_ASSIGN(Tensor* const shape,
                      node.add("shape", LayerKind::kShapeOf,
                               ir::ShapeOfAttrs{0, static_cast<int64_t>(rank)}, {node.input(0)}));
      CAMSHAFT_ASSIGN(sizes, spread_over_axes(node, "all_sizes", sizes, shape, axes));
    }
  }
  std::vector<Tensor*> inputs = {node.input(0), roi, scales, sizes};
  while (inputs.back() == nullptr) inputs.pop_back();
  return node.emit(LayerKind::kResize, std::move(attrs), std::move(inputs));
}

Status import_resize(Node& node) {
  if (node.opset() < 11) return import_upsample(node);
  CAMSHAFT_TRY(node.require(1, 4));
  ir::ResizeAttrs attrs;
  CAMSHAFT_TRY(read_attributes(node, attrs));
  CAMSHAFT_ASSIGN(const Ints axes, read_resized_axes(node));
  const bool by_scales = !is_empty(node.input(2)), by_sizes = !is_empty(node.input(3));
  if (by_scales == by_sizes) return invalid("exactly one of scales and sizes must be given");
  const bool needs_roi = attrs.transform == ir::CoordinateTransform::kTfCropAndResize;
  const std::optional<std::vector<double>> scales = node.reals(2);
  const std::optional<std::vector<Dim>> sizes = node.value(3);
  if ((by_scales ? !scales : !sizes) || (needs_roi && node.has(1) && !node.reals(1)))
    return emit_at_run_time(node, std::move(attrs), axes, by_scales);
  CAMSHAFT_TRY(read_roi(node, attrs, axes));
  return by_scales ? emit_scaled(node, std::move(attrs), *scales, axes)
                   : emit_sized(node, std::move(attrs), *sizes, axes);
}

}  // namespace

std::span<const OperatorRow> resize_operators() {
  static constexpr OperatorRow kOperators[] = {
      {"Resize", import_resize},
      {"Upsample", import_upsample},
  };
  return kOperators;
}

}  // namespace camshaft::onnx_import
