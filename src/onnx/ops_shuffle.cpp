// SPDX-License-Identifier: Apache-2.0
// Operators that give a tensor another shape or order: Reshape, Transpose, Squeeze, Expand, Tile,
// Concat …
#include <algorithm>
#include <numeric>

#include "onnx/node.h"

namespace camshaft::onnx_import {
namespace {

Status emit_reshape(Node& node, Tensor* x, const Shape& shape) {
  ir::ShuffleAttrs attrs;
  attrs.has_reshape = true;
  attrs.reshape = shape;
  return node.emit(LayerKind::kShuffle, std::move(attrs), {x});
}

Status import_reshape(Node& node) {
  CAMSHAFT_TRY(node.require(1, 2));
  Tensor* x = node.input(0);
  const bool allow_zero = node.flag("allowzero", false);
  std::optional<std::vector<Dim>> requested;
  if (node.opset() < 5 && node.has_attribute("shape")) {
    requested.emplace();
    for (int64_t extent : node.integers("shape"))
      requested->push_back(node.symbols().constant(extent));
  } else {
    CAMSHAFT_TRY(node.require(2));
    requested = node.value(1);
  }
  const auto needs_input = [&](Dim extent) {
    return node.symbols().is_number(extent) &&
           (node.symbols().number(extent) < 0 || (extent == Dim(0) && !allow_zero));
  };
  if (requested &&
      (x->has_rank || std::none_of(requested->begin(), requested->end(), needs_input))) {
    Shape shape;
    if (x->has_rank) {
      CAMSHAFT_ASSIGN(shape, ir::resolve_reshape(x->shape, *requested, allow_zero, node.symbols()));
    } else {
      if (requested->size() > ir::kMaxRank)
        return unsupported("{} dimensions (at most {})", requested->size(), ir::kMaxRank);
      shape = Shape(requested->begin(), requested->end());
    }
    return emit_reshape(node, x, shape);
  }
  ir::ShuffleAttrs attrs;
  attrs.allow_zero = allow_zero;
  return node.emit(LayerKind::kShuffle, std::move(attrs), {x, node.input(1)});
}

Status import_transpose(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  ir::ShuffleAttrs attrs;
  attrs.first_transpose = node.integers("perm");
  if (attrs.first_transpose.empty()) {
    CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
    attrs.first_transpose.resize(rank);
    std::iota(attrs.first_transpose.rbegin(), attrs.first_transpose.rend(), 0);
  }
  return node.emit(LayerKind::kShuffle, std::move(attrs), node.inputs());
}

Status import_flatten(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  const int64_t given = node.integer("axis", 1);
  int64_t axis = static_cast<int64_t>(rank);
  if (given != axis) {
    CAMSHAFT_ASSIGN(axis, node.axis(given, rank));
  }
  Dim rows = 1, columns = 1;
  const Shape& x = node.input(0)->shape;
  for (size_t d = 0; d < rank; ++d) {
    Dim& side = static_cast<int64_t>(d) < axis ? rows : columns;
    side = node.symbols().mul(side, x[d]);
  }
  return emit_reshape(node, node.input(0), Shape{rows, columns});
}

Status import_concat(Node& node) {
  CAMSHAFT_TRY(node.require(std::max<size_t>(node.input_count(), 1)));
  int64_t axis = node.integer("axis", 1);
  if (node.opset() >= 4 && !node.has_attribute("axis")) return invalid("attribute axis is missing");
  if (axis < 0) {
    size_t known = 0;
    while (known + 1 < node.input_count() && !node.input(known)->has_rank) ++known;
    CAMSHAFT_ASSIGN(const size_t rank, node.rank(known));
    CAMSHAFT_ASSIGN(axis, node.axis(axis, rank));
  }
  return node.emit(LayerKind::kConcatenation, ir::AxisAttrs{axis}, node.inputs());
}

Status import_expand(Node& node) {
  CAMSHAFT_TRY(node.require(2, 2));
  const std::optional<std::vector<Dim>> target = node.value(1);
  if (!target || !node.input(0)->has_rank)
    return node.emit(LayerKind::kExpand, ir::ShapeAttrs{false, {}}, node.inputs());
  if (target->size() > ir::kMaxRank)
    return unsupported("{} dimensions (at most {})", target->size(), ir::kMaxRank);
  CAMSHAFT_ASSIGN(const Shape shape,
                  ir::broadcast_shapes(node.input(0)->shape, Shape(target->begin(), target->end()),
                                       node.symbols()));
  return node.emit(LayerKind::kExpand, ir::ShapeAttrs{true, shape}, {node.input(0)});
}

Status import_tile(Node& node) {
  CAMSHAFT_TRY(node.require(2, 2));
  const std::optional<std::vector<Dim>> repeats = node.value(1);
  if (!repeats) return node.emit(LayerKind::kTile, ir::ShapeAttrs{false, {}}, node.inputs());
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  if (repeats->size() != rank)
    return invalid("{} repeats for {} dimensions", repeats->size(), rank);
  return node.emit(LayerKind::kTile, ir::ShapeAttrs{true, Shape(repeats->begin(), repeats->end())},
                   {node.input(0)});
}

template <LayerKind kind>
Status import_depth_space(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  ir::DepthSpaceAttrs attrs;
  attrs.block = node.integer("blocksize", 0);
  const std::string mode = node.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") return invalid("mode \"{}\"", mode);
  attrs.column_row_depth = mode == "CRD";
  return node.emit(kind, attrs, node.inputs());
}

Status import_shape(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  const bool whole = node.integer("start", 0) == 0 && !node.has_attribute("end");
  if (whole && !node.input(0)->has_rank)
    return node.emit(LayerKind::kShapeOf, ir::ShapeOfAttrs{0, ir::ShapeOfAttrs::kToTheEnd},
                     node.inputs());
  CAMSHAFT_ASSIGN(const size_t size, node.rank(0));
  const int64_t rank = static_cast<int64_t>(size);
  const auto clamp = [&](int64_t position) {
    return std::clamp<int64_t>(position < 0 ? position + rank : position, 0, rank);
  };
  const int64_t first = clamp(node.integer("start", 0));
  const int64_t last = std::max(clamp(node.integer("end", rank)), first);
  return node.emit(LayerKind::kShapeOf, ir::ShapeOfAttrs{first, last}, node.inputs());
}

Status import_size(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  const Tensor& x = *node.input(0);
  const int64_t rank =
      x.has_rank ? static_cast<int64_t>(x.shape.size()) : ir::ShapeOfAttrs::kToTheEnd;
  CAMSHAFT_ASSIGN(Tensor* const extents,
                  node.add("shape", LayerKind::kShapeOf, ir::ShapeOfAttrs{0, rank}, node.inputs()));
  ir::ReduceAttrs attrs;
  attrs.op = ir::ReduceOp::kProd;
  attrs.axes = {0};
  attrs.keep_dims = false;
  return node.emit(LayerKind::kReduce, std::move(attrs), {extents});
}

}  // namespace

std::span<const OperatorRow> shuffle_operators() {
  static constexpr OperatorRow kOperators[] = {
      {"Reshape", import_reshape},
      {"Transpose", import_transpose},
      {"Flatten", import_flatten},
      {"Concat", import_concat},
      {"Expand", import_expand},
      {"Tile", import_tile},
      {"DepthToSpace", import_depth_space<LayerKind::kDepthToSpace>},
      {"SpaceToDepth", import_depth_space<LayerKind::kSpaceToDepth>},
      {"Shape", import_shape},
      {"Size", import_size},
  };
  return kOperators;
}

}  // namespace camshaft::onnx_import
