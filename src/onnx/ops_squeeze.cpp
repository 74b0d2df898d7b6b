// SPDX-License-Identifier: Apache-2.0
// Squeeze and Unsqueeze: reshapes where the axes and the rank are known, shape arithmetic at run
// time where they are not.
#include "onnx/node.h"

namespace camshaft::onnx_import {
namespace {

// The axes: a list where it is known, else the tensor that holds it; neither: not given.
struct Axes {
  std::optional<Ints> known;
  Tensor* tensor = nullptr;
};

Axes read_axes(Node& node) {
  Axes axes;
  if (node.opset() < 13) {
    if (node.has_attribute("axes")) axes.known = node.integers("axes");
  } else if (node.has(1)) {
    axes.known = node.numbers(1);
    axes.tensor = node.input(1);
  }
  return axes;
}

Status emit_reshape(Node& node, const Shape& shape) {
  ir::ShuffleAttrs attrs;
  attrs.has_reshape = true;
  attrs.reshape = shape;
  return node.emit(LayerKind::kShuffle, std::move(attrs), {node.input(0)});
}

Status emit_reshape_at_run_time(Node& node, Tensor* shape) {
  ir::ShuffleAttrs attrs;
  attrs.allow_zero = true;
  return node.emit(LayerKind::kShuffle, std::move(attrs), {node.input(0), shape});
}

Result<Tensor*> shape_of(Node& node) {
  const Tensor& x = *node.input(0);
  const int64_t rank =
      x.has_rank ? static_cast<int64_t>(x.shape.size()) : ir::ShapeOfAttrs::kToTheEnd;
  return node.add("shape", LayerKind::kShapeOf, ir::ShapeOfAttrs{0, rank}, {node.input(0)});
}

Tensor* vector_constant(Node& node, std::string_view step, const Ints& values) {
  const int64_t extents[] = {static_cast<int64_t>(values.size())};
  return node.int_constant(step, extents, values);
}

// 1 at the given axes, 0 elsewhere; `zeros` has the length of the longer shape.
Result<Tensor*> mark_axes(Node& node, Tensor* zeros, const Axes& axes) {
  Tensor* positions = axes.tensor ? axes.tensor : vector_constant(node, "axes", *axes.known);
  CAMSHAFT_ASSIGN(Tensor* const ones, node.binary("ones", PointOp::kEqual, positions, positions));
  CAMSHAFT_ASSIGN(Tensor* const updates, node.cast("updates", ones, DataType::kInt64));
  return node.add("marks", LayerKind::kScatter, ir::ScatterAttrs{}, {zeros, positions, updates});
}

// --- Squeeze

// The extents whose mark is 0. `count`: how many they are, if known.
Status squeeze_at_run_time(Node& node, const Axes& axes, std::optional<size_t> count) {
  CAMSHAFT_ASSIGN(Tensor* const shape, shape_of(node));
  Tensor* removed = nullptr;
  if (axes.known || axes.tensor) {
    CAMSHAFT_ASSIGN(Tensor* const zeros, node.binary("zeros", PointOp::kSub, shape, shape));
    CAMSHAFT_ASSIGN(removed, mark_axes(node, zeros, axes));
    CAMSHAFT_ASSIGN(removed, node.cast("removed", removed, DataType::kBool));
  } else {
    CAMSHAFT_ASSIGN(
        removed, node.binary("removed", PointOp::kEqual, shape, vector_constant(node, "one", {1})));
  }
  CAMSHAFT_ASSIGN(Tensor* const kept, node.unary("kept", PointOp::kNot, removed));
  ir::GenericAttrs compress;
  compress.op_type = "Compress";
  compress.opset = 11;
  compress.attributes = {{"axis", {0}, {}, {}}};
  CAMSHAFT_ASSIGN(Tensor * new_shape,
                  node.add("new_shape", LayerKind::kGeneric, std::move(compress), {shape, kept}));
  if (count) {  // says so, that the result has a known rank
    const ir::SliceAttrs all{Shape{Dim(0)}, Shape{Dim(static_cast<int64_t>(*count))}, {1}};
    CAMSHAFT_ASSIGN(new_shape, node.add("all", LayerKind::kSlice, all, {new_shape}));
  }
  return emit_reshape_at_run_time(node, new_shape);
}

Status import_squeeze(Node& node) {
  CAMSHAFT_TRY(node.require(1, 2));
  const Axes axes = read_axes(node);
  if (!node.input(0)->has_rank) return squeeze_at_run_time(node, axes, std::nullopt);
  const Shape& x = node.input(0)->shape;
  const size_t rank = x.size();
  std::vector<bool> removed(rank);
  if (axes.known) {
    for (int64_t given : *axes.known) {
      CAMSHAFT_ASSIGN(const int64_t axis, node.axis(given, rank));
      if (x[axis].is_known() && x[axis] != Dim(1))
        return invalid("axis {} has extent {}, not 1", given, x[axis].extent());
      removed[axis] = true;
    }
  } else if (axes.tensor) {
    const Shape& list = axes.tensor->shape;
    const bool countable = axes.tensor->has_rank && list.size() == 1 && list[0].is_known() &&
                           list[0].extent() <= static_cast<int64_t>(rank);
    return squeeze_at_run_time(node, axes,
                               countable ? std::optional(rank - list[0].extent()) : std::nullopt);
  } else {
    for (size_t d = 0; d < rank; ++d) {
      const ir::SymbolTable::Bounds bounds = node.symbols().bounds(x[d]);
      if (!node.symbols().is_number(x[d]) && bounds.low <= 1 && bounds.high >= 1)
        return squeeze_at_run_time(node, axes, std::nullopt);
      removed[d] = x[d] == Dim(1);
    }
  }
  Shape shape;
  for (size_t d = 0; d < rank; ++d)
    if (!removed[d]) shape.push_back(x[d]);
  return emit_reshape(node, shape);
}

// --- Unsqueeze

// A vector of zeros with one element per dimension of the result.
Result<Tensor*> zeros_of_result(Node& node, Tensor* shape, Tensor* positions) {
  CAMSHAFT_ASSIGN(Tensor* const old_rank,
                  node.add("rank", LayerKind::kShapeOf, ir::ShapeOfAttrs{0, 1}, {shape}));
  CAMSHAFT_ASSIGN(Tensor* const added,
                  node.add("added", LayerKind::kShapeOf, ir::ShapeOfAttrs{0, 1}, {positions}));
  CAMSHAFT_ASSIGN(Tensor* const new_rank, node.binary("new_rank", PointOp::kAdd, old_rank, added));
  ir::FillAttrs zeros;
  zeros.type = DataType::kInt64;
  const std::optional<std::vector<Dim>> length = ir::infer_input(new_rank, node.symbols()).value;
  zeros.is_static = length.has_value();
  if (zeros.is_static) {
    zeros.shape = Shape{(*length)[0]};
    return node.add("zeros", LayerKind::kFill, zeros, {});
  }
  return node.add("zeros", LayerKind::kFill, zeros, {new_rank});
}

Status unsqueeze_at_run_time(Node& node, Axes axes) {
  if (!axes.tensor) axes.tensor = vector_constant(node, "axes", *axes.known);
  if (axes.tensor->has_rank && axes.tensor->shape.empty()) {
    CAMSHAFT_ASSIGN(axes.tensor, node.reshape("axes_vector", axes.tensor, Shape{Dim(1)}));
  }
  CAMSHAFT_ASSIGN(Tensor* const shape, shape_of(node));
  CAMSHAFT_ASSIGN(Tensor* const zeros, zeros_of_result(node, shape, axes.tensor));
  CAMSHAFT_ASSIGN(Tensor* const marks, mark_axes(node, zeros, axes));
  // Unmarked dimension number k of the result is dimension k of x.
  Tensor* one = node.scalar_like("one", DataType::kInt64, 1);
  CAMSHAFT_ASSIGN(Tensor* const unmarked, node.binary("unmarked", PointOp::kSub, one, marks));
  CAMSHAFT_ASSIGN(Tensor * position,
                  node.add("count", LayerKind::kCumSum, ir::CumSumAttrs{},
                           {unmarked, node.scalar_like("first_axis", DataType::kInt64, 0)}));
  CAMSHAFT_ASSIGN(position, node.binary("position", PointOp::kSub, position, one));
  CAMSHAFT_ASSIGN(position, node.binary("position_or_first", PointOp::kMax, position,
                                        node.scalar_like("zero", DataType::kInt64, 0)));
  // A scalar has no extents to pick from: the 1 at the end is there for it.
  CAMSHAFT_ASSIGN(Tensor* const extents,
                  node.add("extents", LayerKind::kConcatenation, ir::AxisAttrs{0},
                           {shape, vector_constant(node, "last", {1})}));
  CAMSHAFT_ASSIGN(Tensor* const picked,
                  node.add("picked", LayerKind::kGather, ir::GatherAttrs{}, {extents, position}));
  CAMSHAFT_ASSIGN(Tensor* const is_new, node.cast("is_new", marks, DataType::kBool));
  CAMSHAFT_ASSIGN(Tensor* const new_shape,
                  node.add("new_shape", LayerKind::kSelect, ir::PointOpAttrs{PointOp::kSelect},
                           {is_new, one, picked}));
  return emit_reshape_at_run_time(node, new_shape);
}

Status import_unsqueeze(Node& node) {
  CAMSHAFT_TRY(node.require(1, 2));
  const Axes axes = read_axes(node);
  if (!axes.known && !axes.tensor) return invalid("axes are missing");
  if (!axes.known || !node.input(0)->has_rank) return unsqueeze_at_run_time(node, axes);
  const size_t rank = node.input(0)->shape.size(), new_rank = rank + axes.known->size();
  if (new_rank > ir::kMaxRank)
    return unsupported("{} dimensions (at most {})", new_rank, ir::kMaxRank);
  std::vector<bool> added(new_rank);
  for (int64_t given : *axes.known) {
    CAMSHAFT_ASSIGN(const int64_t axis, node.axis(given, new_rank));
    if (added[axis]) return invalid("axis {} is given twice", given);
    added[axis] = true;
  }
  Shape shape;
  size_t d = 0;
  for (size_t k = 0; k < new_rank; ++k)
    shape.push_back(added[k] ? Dim(1) : node.input(0)->shape[d++]);
  return emit_reshape(node, shape);
}

}  // namespace

std::span<const OperatorRow> squeeze_operators() {
  static constexpr OperatorRow kOperators[] = {
      {"Squeeze", import_squeeze},
      {"Unsqueeze", import_unsqueeze},
  };
  return kOperators;
}

}  // namespace camshaft::onnx_import
