// SPDX-License-Identifier: Apache-2.0
// Shapes of Generic operators: sampling, boxes, unpooling.
#include "ir/deformed_columns.h"
#include "ir/infer_generic.h"

namespace camshaft::ir {
namespace {

Status grid_sample(GenericRule& g) {
  Inference& f = g.f;
  CAMSHAFT_TRY(f.require(2));
  if (!f.ranked(0) || !f.ranked(1)) return f.unranked(f.in(0).type);
  if (f.rank(0) < 3 || f.rank(0) != f.rank(1))
    return invalid("input {}, grid {}", to_string(f.shape(0), f.symbols),
                   to_string(f.shape(1), f.symbols));
  Shape shape = {f.shape(0)[0], f.shape(0)[1]};
  for (size_t d = 1; d + 1 < f.rank(1); ++d) shape.push_back(f.shape(1)[d]);
  return f.give(f.in(0).type, shape);
}

// size: [N, C, spatial…] → [N, spatial…, number of spatial dimensions].
Status affine_grid(GenericRule& g) {
  Inference& f = g.f;
  CAMSHAFT_TRY(f.require(2));
  const auto size = g.value(1);
  if (!size) {
    const bool known = f.ranked(1) && f.rank(1) == 1 && f.shape(1)[0].is_known() &&
                       f.shape(1)[0].extent() <= static_cast<int64_t>(kMaxRank);
    return known ? f.give(f.in(0).type, f.unknown_shape(f.shape(1)[0].extent()))
                 : f.unranked(f.in(0).type);
  }
  if (size->size() < 3 || size->size() > kMaxRank)
    return invalid("size has {} entries", size->size());
  Shape shape = {(*size)[0]};
  for (size_t d = 2; d < size->size(); ++d) shape.push_back((*size)[d]);
  shape.push_back(static_cast<int64_t>(size->size()) - 2);
  return f.give(f.in(0).type, shape);
}

// Inputs x, weights, offset: the offset has the output's spatial extents.
Status deform_conv(GenericRule& g) {
  Inference& f = g.f;
  CAMSHAFT_TRY(f.require(3));
  if (!f.ranked(0) || !f.ranked(1) || !f.ranked(2)) return f.unranked(f.in(0).type);
  if (f.rank(0) < 3 || f.rank(1) != f.rank(0) || f.rank(2) != f.rank(0))
    return invalid("input, weights and offset differ in rank");
  Shape shape = {f.shape(0)[0], f.shape(1)[0]};
  for (size_t d = 2; d < f.rank(2); ++d) shape.push_back(f.shape(2)[d]);
  return f.give(f.in(0).type, shape);
}

// Inputs: columns [N, C*prod(block), L], image_shape, block_shape.
Status col2im(GenericRule& g) {
  Inference& f = g.f;
  CAMSHAFT_TRY(f.require(3));
  const auto image = g.value(1), block = g.value(2);
  if (!image || !block || !f.ranked(0) || f.rank(0) != 3) {
    const bool known = f.ranked(1) && f.rank(1) == 1 && f.shape(1)[0].is_known() &&
                       f.shape(1)[0].extent() + 2 <= static_cast<int64_t>(kMaxRank);
    return known ? f.give(f.in(0).type, f.unknown_shape(f.shape(1)[0].extent() + 2))
                 : f.unranked(f.in(0).type);
  }
  if (image->size() + 2 > kMaxRank) return invalid("image_shape has {} entries", image->size());
  Dim area = 1;
  for (Dim extent : *block) area = f.symbols.mul(area, extent);
  Shape shape = {f.shape(0)[0], f.symbols.floor_div(f.shape(0)[1], area)};
  for (Dim extent : *image) shape.push_back(extent);
  return f.give(f.in(0).type, shape);
}

Status center_crop_pad(GenericRule& g) {
  Inference& f = g.f;
  CAMSHAFT_TRY(f.require(2));
  if (!f.ranked(0)) return f.unranked(f.in(0).type);
  const auto target = g.value(1);
  Ints axes = g.list("axes");
  if (axes.empty())
    for (size_t d = 0; d < f.rank(0); ++d) axes.push_back(static_cast<int64_t>(d));
  if (target && target->size() != axes.size())
    return invalid("{} extents for {} axes", target->size(), axes.size());
  Shape shape = f.shape(0);
  for (size_t k = 0; k < axes.size(); ++k) {
    const int64_t axis = wrap_axis(axes[k], f.rank(0));
    if (axis < 0) return invalid("axis {} of {}", axes[k], to_string(f.shape(0), f.symbols));
    shape[axis] = target ? (*target)[k] : f.unknown();
  }
  return f.give(f.in(0).type, shape);
}

Status max_unpool(GenericRule& g) {
  Inference& f = g.f;
  CAMSHAFT_TRY(f.require(2));
  if (!f.ranked(0) || f.rank(0) < 3) return f.unranked(f.in(0).type);
  if (f.has(2)) {
    const auto given = g.value(2);
    if (!given || given->size() != f.rank(0))
      return f.give(f.in(0).type, f.unknown_shape(f.rank(0)));
    return f.give(f.in(0).type, Shape(given->begin(), given->end()));
  }
  const size_t spatial = f.rank(0) - 2;
  const Ints kernel = g.list("kernel_shape");
  Ints strides = g.list("strides"), pads = g.list("pads");
  if (strides.empty()) strides.assign(spatial, 1);
  if (pads.empty()) pads.assign(2 * spatial, 0);
  if (kernel.size() != spatial || strides.size() != spatial || pads.size() != 2 * spatial)
    return invalid("the window does not fit the input");
  Shape shape = {f.shape(0)[0], f.shape(0)[1]};
  for (size_t d = 0; d < spatial; ++d) {
    for (int64_t number : {kernel[d], strides[d], pads[d], pads[d + spatial]})
      if (number < 0 || number > kMaxExtent)
        return invalid("window parameter {} is out of range", number);
    const Dim last = f.symbols.mul(f.symbols.sub(f.shape(0)[d + 2], 1), strides[d]);
    shape.push_back(
        f.symbols.add(last, f.symbols.constant(kernel[d] - pads[d] - pads[d + spatial])));
  }
  return f.give(f.in(0).type, shape);
}

Status deformed_columns(GenericRule& g) {
  Inference& f = g.f;
  CAMSHAFT_TRY(f.require(2));
  if (!f.ranked(0) || !f.ranked(1)) return f.unranked(f.in(0).type);
  const Ints kernel = g.list("kernel_shape");
  if (f.rank(0) != 4 || f.rank(1) != 4 || kernel.size() != 2 || kernel[0] < 1 || kernel[1] < 1 ||
      kernel[0] > kMaxExtent || kernel[1] > kMaxExtent)
    return invalid("input {}, offsets {} and {} kernel extents", to_string(f.shape(0), f.symbols),
                   to_string(f.shape(1), f.symbols), kernel.size());
  const Dim columns = f.symbols.mul(f.shape(0)[1], f.symbols.constant(kernel[0] * kernel[1]));
  return f.give(f.in(0).type, Shape{f.shape(0)[0], columns, f.shape(1)[2], f.shape(1)[3]});
}

// --- boxes

Status non_max_suppression(GenericRule& g) {
  CAMSHAFT_TRY(g.f.require(2));
  return g.f.give(DataType::kInt64, Shape{g.f.unknown(), Dim(3)});
}

Status roi_align(GenericRule& g) {
  CAMSHAFT_TRY(g.f.require(3));
  const int64_t height = g.integer("output_height", 1), width = g.integer("output_width", 1);
  if (height < 1 || width < 1 || height > kMaxExtent || width > kMaxExtent)
    return invalid("output of {} x {}", height, width);
  return g.f.give(g.f.in(0).type, Shape{g.extent(1, 0), g.extent(0, 1), Dim(height), Dim(width)});
}

Status max_roi_pool(GenericRule& g) {
  CAMSHAFT_TRY(g.f.require(2));
  const Ints pooled = g.list("pooled_shape");
  if (pooled.size() != 2 || pooled[0] < 1 || pooled[1] < 1 || pooled[0] > kMaxExtent ||
      pooled[1] > kMaxExtent)
    return invalid("pooled_shape is missing");
  return g.f.give(g.f.in(0).type,
                  Shape{g.extent(1, 0), g.extent(0, 1), Dim(pooled[0]), Dim(pooled[1])});
}

}  // namespace

std::span<const GenericRow> generic_vision_rules() {
  static constexpr GenericRow kRows[] = {
      {"GridSample", grid_sample}, {"AffineGrid", affine_grid},
      {"DeformConv", deform_conv}, {kDeformedColumns, deformed_columns},
      {"Col2Im", col2im},          {"CenterCropPad", center_crop_pad},
      {"MaxUnpool", max_unpool},   {"NonMaxSuppression", non_max_suppression},
      {"RoiAlign", roi_align},     {"MaxRoiPool", max_roi_pool},
  };
  return kRows;
}

}  // namespace camshaft::ir
