// SPDX-License-Identifier: Apache-2.0
// Slice, Split and Pad.
#include <limits>

#include "onnx/node.h"

namespace camshaft::onnx_import {
namespace {

struct SliceRequest {
  std::optional<std::vector<Dim>> starts, ends;
  std::optional<Ints> axes, steps;
  bool known = false;  // all of them
};

std::vector<Dim> as_dims(const Ints& numbers, ir::SymbolTable& symbols) {
  std::vector<Dim> dims;
  for (int64_t number : numbers) dims.push_back(symbols.constant(number));
  return dims;
}

SliceRequest read_slice(Node& node) {
  SliceRequest request;
  if (node.opset() < 10) {
    request.starts = as_dims(node.integers("starts"), node.symbols());
    request.ends = as_dims(node.integers("ends"), node.symbols());
    if (node.has_attribute("axes")) request.axes = node.integers("axes");
    request.known = true;
    return request;
  }
  request.starts = node.value(1);
  request.ends = node.value(2);
  request.axes = node.numbers(3);
  request.steps = node.numbers(4);
  request.known = request.starts && request.ends && (!node.has(3) || request.axes) &&
                  (!node.has(4) || request.steps);
  return request;
}

Status import_slice(Node& node) {
  const bool in_attributes = node.opset() < 10;
  CAMSHAFT_TRY(node.require(in_attributes ? 1 : 3, in_attributes ? 1 : 5));
  const SliceRequest request = read_slice(node);
  if (!request.known) return node.emit(LayerKind::kSlice, ir::SliceAttrs{}, node.inputs());
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  const Shape& x = node.input(0)->shape;
  const size_t count = request.starts->size();
  if (request.ends->size() != count || (request.axes && request.axes->size() != count) ||
      (request.steps && request.steps->size() != count))
    return invalid("starts, ends, axes and steps differ in length");
  ir::SliceAttrs attrs;
  attrs.start.resize(rank, 0);
  attrs.size = x;
  attrs.step.assign(rank, 1);
  for (size_t k = 0; k < count; ++k) {
    CAMSHAFT_ASSIGN(const int64_t axis,
                    node.axis(request.axes ? (*request.axes)[k] : static_cast<int64_t>(k), rank));
    const int64_t step = request.steps ? (*request.steps)[k] : 1;
    if (step == 0) return invalid("a step is 0");
    const std::optional<ir::SliceRange> range =
        ir::resolve_slice(x[axis], (*request.starts)[k], (*request.ends)[k],
                          std::max<int64_t>(step, -ir::kMaxExtent), node.symbols());
    if (!range) {  // the sign of a start or end is not known
      if (in_attributes) return unsupported("starts and ends that cannot be resolved");
      return node.emit(LayerKind::kSlice, ir::SliceAttrs{}, node.inputs());
    }
    attrs.start[axis] = range->start;
    attrs.size[axis] = range->size;
    attrs.step[axis] = std::max<int64_t>(step, -ir::kMaxExtent);
  }
  return node.emit(LayerKind::kSlice, std::move(attrs), {node.input(0)});
}

// Extents of the pieces along the axis.
Result<std::vector<Dim>> split_sizes(Node& node, Dim extent) {
  const size_t pieces = node.def().outputs.size();
  const bool in_attributes = node.opset() < 13;
  std::optional<std::vector<Dim>> sizes;
  if (in_attributes && node.has_attribute("split"))
    sizes = as_dims(node.integers("split"), node.symbols());
  if (!in_attributes && node.has(1)) sizes = node.value(1);
  const int64_t requested = node.integer("num_outputs", static_cast<int64_t>(pieces));
  if (pieces == 0 || requested != static_cast<int64_t>(pieces))
    return invalid("num_outputs is {}, the node has {} outputs", requested, pieces);
  if (sizes) {
    if (sizes->size() != pieces) return invalid("{} sizes for {} outputs", sizes->size(), pieces);
    return *sizes;
  }
  const int64_t count = static_cast<int64_t>(pieces);
  if (node.opset() < 18 && extent.is_known() && extent.extent() % count != 0)
    return invalid("extent {} cannot be divided into {} equal parts", extent.extent(), count);
  ir::SymbolTable& symbols = node.symbols();
  const Dim part =
      node.opset() < 18 ? symbols.floor_div(extent, count) : symbols.ceil_div(extent, count);
  std::vector<Dim> equal(pieces, part);
  equal.back() = symbols.sub(extent, symbols.mul(part, count - 1));
  return equal;
}

// The sum of the first `count` sizes, as a vector of one element.
Result<Tensor*> sum_of_sizes(Node& node, size_t count) {
  const std::string step = fmt::format("sum_{}", count);
  const int64_t extents[] = {1}, zero[] = {0};
  if (count == 0) return node.int_constant(step, extents, zero);
  const ir::SliceAttrs first{Shape{Dim(0)}, Shape{Dim(static_cast<int64_t>(count))}, {1}};
  CAMSHAFT_ASSIGN(Tensor* const sizes,
                  node.add(step + "_sizes", LayerKind::kSlice, first, {node.input(1)}));
  ir::ReduceAttrs sum;
  sum.axes = {0};
  return node.add(step, LayerKind::kReduce, std::move(sum), {sizes});
}

Status split_at_run_time(Node& node, int64_t axis) {
  const int64_t extents[] = {1}, axis_value[] = {axis};
  Tensor* axes = node.int_constant("axes", extents, axis_value);
  CAMSHAFT_ASSIGN(Tensor * start, sum_of_sizes(node, 0));
  for (size_t k = 0; k < node.def().outputs.size(); ++k) {
    CAMSHAFT_ASSIGN(Tensor* const end, sum_of_sizes(node, k + 1));
    CAMSHAFT_TRY(
        node.emit_to(k, LayerKind::kSlice, ir::SliceAttrs{}, {node.input(0), start, end, axes}));
    start = end;
  }
  return ok_status();
}

Status import_split(Node& node) {
  CAMSHAFT_TRY(node.require(1, 2));
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  CAMSHAFT_ASSIGN(const int64_t axis, node.axis(node.integer("axis", 0), rank));
  if (node.opset() >= 13 && node.has(1) && !node.value(1)) return split_at_run_time(node, axis);
  const Shape& x = node.input(0)->shape;
  CAMSHAFT_ASSIGN(const std::vector<Dim> sizes, split_sizes(node, x[axis]));
  Dim start = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    ir::SliceAttrs attrs;
    attrs.start.resize(rank, 0);
    attrs.size = x;
    attrs.step.assign(rank, 1);
    attrs.start[axis] = start;
    attrs.size[axis] = sizes[k];
    start = node.symbols().add(start, sizes[k]);
    CAMSHAFT_TRY(node.emit_to(k, LayerKind::kSlice, std::move(attrs), {node.input(0)}));
  }
  if (node.symbols().is_number(start) && x[axis].is_known() &&
      node.symbols().number(start) != x[axis].extent())
    return invalid("the parts have {} elements together, axis {} has {}",
                   node.symbols().number(start), axis, x[axis].extent());
  return ok_status();
}

// --- Pad

Result<ir::PadMode> pad_mode(Node& node) {
  const std::string mode = node.text("mode", "constant");
  if (mode == "constant") return ir::PadMode::kConstant;
  if (mode == "reflect") return ir::PadMode::kReflect;
  if (mode == "edge") return ir::PadMode::kEdge;
  if (mode == "wrap") return ir::PadMode::kWrap;
  return invalid("mode \"{}\"", mode);
}

Status emit_static_pad(Node& node, ir::PadAttrs attrs, const Ints& pads,
                       const std::optional<Ints>& axes) {
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  const size_t count = axes ? axes->size() : rank;
  if (pads.size() != 2 * count) return invalid("{} pads for {} dimensions", pads.size(), count);
  attrs.pre.assign(rank, 0);
  attrs.post.assign(rank, 0);
  for (size_t k = 0; k < count; ++k) {
    CAMSHAFT_ASSIGN(const int64_t axis,
                    node.axis(axes ? (*axes)[k] : static_cast<int64_t>(k), rank));
    for (int64_t pad : {pads[k], pads[k + count]})
      if (pad > ir::kMaxExtent || pad < -ir::kMaxExtent)
        return invalid("pad {} is out of range", pad);
    attrs.pre[axis] = pads[k];
    attrs.post[axis] = pads[k + count];
  }
  return node.emit(LayerKind::kPad, std::move(attrs), {node.input(0)});
}

Status import_pad(Node& node) {
  const bool in_attributes = node.opset() < 11;
  CAMSHAFT_TRY(node.require(in_attributes ? 1 : 2, in_attributes ? 1 : 4));
  ir::PadAttrs attrs;
  CAMSHAFT_ASSIGN(attrs.mode, pad_mode(node));
  if (in_attributes) {
    attrs.value = node.real("value", 0);
    return emit_static_pad(node, std::move(attrs),
                           node.integers(node.opset() < 2 ? "paddings" : "pads"), std::nullopt);
  }
  const std::optional<Ints> pads = node.numbers(1), axes = node.numbers(3);
  const std::optional<double> value = node.has(2) ? node.scalar(2) : 0;
  // The attribute is a float: what it cannot hold stays an input.
  const bool exact = value && static_cast<double>(static_cast<float>(*value)) == *value;
  if (!pads || !exact || (node.has(3) && !axes))
    return node.emit(LayerKind::kPad, std::move(attrs), node.inputs());
  attrs.value = static_cast<float>(*value);
  return emit_static_pad(node, std::move(attrs), *pads, axes);
}

}  // namespace

std::span<const OperatorRow> slice_operators() {
  static constexpr OperatorRow kOperators[] = {
      {"Slice", import_slice},
      {"Split", import_split},
      {"Pad", import_pad},
  };
  return kOperators;
}

}  // namespace camshaft::onnx_import
