// SPDX-License-Identifier: Apache-2.0
// What sequences are taken apart to (sequences.cpp): "stacked" is a tensor whose first axis counts
// the elements. And the operators on sequences that are left, which are refused.
#include <algorithm>

#include "onnx/node.h"
#include "onnx/sequences.h"

namespace camshaft::onnx_import {
namespace {

Result<Tensor*> joined(Node& node, std::string_view step, std::vector<Tensor*> parts,
                       int64_t axis) {
  if (parts.size() == 1) return parts[0];
  return node.add(step, LayerKind::kConcatenation, ir::AxisAttrs{axis}, std::move(parts));
}

// With an axis of extent 1 in front of `axis`.
Result<Tensor*> with_axis(Node& node, std::string_view step, Tensor* x, size_t axis) {
  if (!x) return invalid("an element is missing");
  if (!x->has_rank) return unsupported("the rank of an element is known only at run time");
  if (axis > x->shape.size()) return invalid("an element has another rank");
  Shape shape = x->shape;
  shape.insert(axis, Dim(1));
  return node.reshape(step, x, shape);
}

Result<std::vector<Tensor*>> all_with_axis(Node& node, size_t axis) {
  std::vector<Tensor*> rows;
  for (size_t k = 0; k < node.input_count(); ++k) {
    CAMSHAFT_ASSIGN(Tensor* const row,
                    with_axis(node, fmt::format("row_{}", k), node.input(k), axis));
    rows.push_back(row);
  }
  return rows;
}

Status import_element(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  node.give(0, node.input(0));
  return ok_status();
}

Status import_stack(Node& node) {
  CAMSHAFT_TRY(node.require(1));
  CAMSHAFT_ASSIGN(std::vector<Tensor*> rows, all_with_axis(node, 0));
  CAMSHAFT_ASSIGN(Tensor* const all, joined(node, "stack", std::move(rows), 0));
  node.give(0, all);
  return ok_status();
}

Status import_sequence_concat(Node& node) {
  CAMSHAFT_TRY(node.require(1));
  return node.emit(LayerKind::kConcatenation, ir::AxisAttrs{0}, node.inputs());
}

// Of tensors, along `axis` or, with new_axis, a new one.
Status import_concat_from(Node& node) {
  CAMSHAFT_TRY(node.require(1));
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  const bool is_new = node.flag("new_axis", false);
  CAMSHAFT_ASSIGN(const int64_t axis, node.axis(node.integer("axis", 0), rank + is_new));
  std::vector<Tensor*> parts = node.inputs();
  if (is_new) {
    CAMSHAFT_ASSIGN(parts, all_with_axis(node, static_cast<size_t>(axis)));
  }
  CAMSHAFT_ASSIGN(Tensor* const all, joined(node, "joined", std::move(parts), axis));
  node.give(0, all);
  return ok_status();
}

// Rows of rows: the first two axes become one.
Status import_sequence_flatten(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  if (rank < 2) return invalid("nothing is stacked");
  const Tensor* rows = node.input(0);
  Shape shape(rows->shape.begin() + 1, rows->shape.end());
  shape[0] = node.symbols().mul(rows->shape[0], rows->shape[1]);
  CAMSHAFT_ASSIGN(Tensor* const all, node.reshape("all", node.input(0), shape));
  node.give(0, all);
  return ok_status();
}

// Rows, the last one first.
Status import_reverse(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  if (rank == 0) return invalid("nothing is stacked");
  ir::SymbolTable& symbols = node.symbols();
  const Shape& shape = node.input(0)->shape;
  ir::SliceAttrs attrs{Shape(rank, Dim(0)), shape, Ints(rank, 1)};
  attrs.start[0] = symbols.max(symbols.sub(shape[0], Dim(1)), Dim(0));
  attrs.step[0] = -1;
  return node.emit(LayerKind::kSlice, std::move(attrs), {node.input(0)});
}

// Another row where `position` says.
Status import_replace(Node& node) {
  CAMSHAFT_TRY(node.require(3, 3));
  CAMSHAFT_ASSIGN(Tensor* const row, with_axis(node, "row", node.input(2), 0));
  CAMSHAFT_ASSIGN(Tensor* const place, node.reshape("position", node.input(1), {Dim(1), Dim(1)}));
  ir::ScatterAttrs attrs;
  attrs.mode = ir::ScatterMode::kNd;
  return node.emit(LayerKind::kScatter, attrs, {node.input(0), place, row});
}

Status import_pick(Node& node) {
  CAMSHAFT_TRY(node.require(node.has_attribute("index") ? 1 : 2, 2));
  const int64_t fixed = node.integer("index", 0);
  Tensor* index =
      node.has(1) ? node.input(1) : node.int_constant("index", {}, std::span(&fixed, 1));
  if (!index->has_rank || !index->shape.empty()) {
    CAMSHAFT_ASSIGN(index, node.reshape("position", index, {}));
  }
  return node.emit(LayerKind::kGather, ir::GatherAttrs{}, {node.input(0), index});
}

Status import_count(Node& node) {
  const int64_t ones = node.integer("ones", 0);
  Tensor* count = node.int_constant("ones", {}, std::span(&ones, 1));
  for (size_t k = 0; k < node.input_count(); ++k) {
    CAMSHAFT_ASSIGN(Tensor * rows, node.add(fmt::format("rows_{}", k), LayerKind::kShapeOf,
                                            ir::ShapeOfAttrs{0, 1}, {node.input(k)}));
    CAMSHAFT_ASSIGN(rows, node.reshape(fmt::format("number_{}", k), rows, {}));
    CAMSHAFT_ASSIGN(count, node.binary(fmt::format("sum_{}", k), PointOp::kAdd, count, rows));
  }
  node.give(0, count);
  return ok_status();
}

// Axis `from` goes to position `to`, the others keep their order.
Result<Tensor*> moved(Node& node, Tensor* x, int64_t from, int64_t to) {
  if (from == to) return x;
  Ints order;
  for (int64_t d = 0; d < static_cast<int64_t>(x->shape.size()); ++d)
    if (d != from) order.push_back(d);
  order.insert(order.begin() + to, from);
  return node.transpose("moved", x, order);
}

// ConcatFromSequence of a stacked tensor.
Status import_join(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  if (rank == 0) return invalid("nothing is stacked");
  const bool is_new = node.flag("new_axis", false);
  CAMSHAFT_ASSIGN(const int64_t axis, node.axis(node.integer("axis", 0), rank - !is_new));
  CAMSHAFT_ASSIGN(Tensor * all, moved(node, node.input(0), 0, axis));
  if (!is_new) {
    Shape shape = all->shape;
    shape[axis] = node.symbols().mul(shape[axis], shape[axis + 1]);
    shape.erase(static_cast<size_t>(axis) + 1);
    CAMSHAFT_ASSIGN(all, node.reshape("joined", all, shape));
  }
  node.give(0, all);
  return ok_status();
}

// SplitToSequence into single rows along an axis.
Status import_rows(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  CAMSHAFT_ASSIGN(const int64_t axis, node.axis(node.integer("axis", 0), rank));
  const bool keeps = node.flag("keepdims", true);
  CAMSHAFT_ASSIGN(Tensor * rows, moved(node, node.input(0), axis, 0));
  if (keeps) {
    CAMSHAFT_ASSIGN(rows, with_axis(node, "rows", rows, static_cast<size_t>(axis) + 1));
  }
  node.give(0, rows);
  return ok_status();
}

// SplitToSequence into pieces; the last one may be shorter.
struct Pieces {
  Tensor* x;
  size_t axis;
  int64_t size;
  Dim extent, count;
};

Result<Pieces> pieces_of(Node& node) {
  CAMSHAFT_TRY(node.require(1, 2));
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  CAMSHAFT_ASSIGN(const int64_t axis, node.axis(node.integer("axis", 0), rank));
  const int64_t size = node.integer("size", 0);
  if (size < 0) return invalid("pieces of {}", size);
  ir::SymbolTable& symbols = node.symbols();
  const Dim extent = node.input(0)->shape[axis];
  const Dim count =
      size == 0 ? Dim(0) : symbols.floor_div(symbols.add(extent, Dim(size - 1)), Dim(size));
  return Pieces{node.input(0), static_cast<size_t>(axis), size, extent, count};
}

Status import_piece_at(Node& node, const Pieces& pieces, int64_t start) {
  ir::SymbolTable& symbols = node.symbols();
  if (symbols.is_number(pieces.extent) && symbols.number(pieces.extent) <= start)
    return invalid("piece from {} of an axis of {}", start, symbols.number(pieces.extent));
  const size_t rank = pieces.x->shape.size();
  ir::SliceAttrs attrs{Shape(rank, Dim(0)), pieces.x->shape, Ints(rank, 1)};
  attrs.start[pieces.axis] = Dim(start);
  attrs.size[pieces.axis] =
      symbols.min(Dim(pieces.size), symbols.max(symbols.sub(pieces.extent, Dim(start)), Dim(0)));
  return node.emit(LayerKind::kSlice, std::move(attrs), {pieces.x});
}

// Pieces that are all alike are rows of an axis of their own.
Status pick_whole_piece(Node& node, const Pieces& pieces, Tensor* position) {
  Shape shape = pieces.x->shape;
  shape[pieces.axis] = pieces.count;
  shape.insert(pieces.axis + 1, Dim(pieces.size));
  CAMSHAFT_ASSIGN(Tensor* const rows, node.reshape("pieces", pieces.x, shape));
  ir::GatherAttrs attrs;
  attrs.axis = static_cast<int64_t>(pieces.axis);
  return node.emit(LayerKind::kGather, attrs, {rows, position});
}

Tensor* scalar(Node& node, std::string_view step, int64_t value) {
  return node.int_constant(step, {}, std::span(&value, 1));
}

// How many pieces there are, as a scalar.
Result<Tensor*> count_pieces(Node& node, const Pieces& pieces) {
  const auto axis = static_cast<int64_t>(pieces.axis);
  CAMSHAFT_ASSIGN(Tensor * count, node.add("extents", LayerKind::kShapeOf,
                                           ir::ShapeOfAttrs{axis, axis + 1}, {pieces.x}));
  CAMSHAFT_ASSIGN(count, node.reshape("extent", count, {}));
  CAMSHAFT_ASSIGN(count, node.binary("rounded_up", PointOp::kAdd, count,
                                     scalar(node, "size_less_one", pieces.size - 1)));
  return node.binary("count", PointOp::kDiv, count, scalar(node, "of_size", pieces.size));
}

Status pick_piece(Node& node, const Pieces& pieces, Tensor* position) {
  CAMSHAFT_ASSIGN(Tensor* const count, count_pieces(node, pieces));
  CAMSHAFT_ASSIGN(Tensor* const behind, node.binary("from_end", PointOp::kAdd, position, count));
  CAMSHAFT_ASSIGN(Tensor* const is_negative,
                  node.binary("is_negative", PointOp::kLess, position, scalar(node, "zero", 0)));
  CAMSHAFT_ASSIGN(Tensor* const place,
                  node.add("place", LayerKind::kSelect, ir::PointOpAttrs{PointOp::kSelect},
                           {is_negative, behind, position}));
  Tensor* const size = scalar(node, "size", pieces.size);
  CAMSHAFT_ASSIGN(Tensor* const start, node.binary("start", PointOp::kMul, place, size));
  CAMSHAFT_ASSIGN(Tensor* const end, node.binary("end", PointOp::kAdd, start, size));
  const auto axis = static_cast<int64_t>(pieces.axis);
  const Ints one = {1};
  return node.emit(LayerKind::kSlice, ir::SliceAttrs{},
                   {pieces.x, start, end, node.int_constant("axis", one, std::span(&axis, 1))});
}

Status import_piece(Node& node) {
  CAMSHAFT_ASSIGN(const Pieces pieces, pieces_of(node));
  if (!node.has(1)) return import_piece_at(node, pieces, node.integer("start", 0));
  if (pieces.size == 0) return invalid("pieces of 0");
  const ir::SymbolTable& symbols = node.symbols();
  const bool alike =
      symbols.is_number(pieces.extent) && symbols.number(pieces.extent) % pieces.size == 0;
  CAMSHAFT_ASSIGN(Tensor* const position,
                  node.reshape("position", node.input(1), alike ? Shape{} : Shape{Dim(1)}));
  return alike ? pick_whole_piece(node, pieces, position) : pick_piece(node, pieces, position);
}

Status import_pieces(Node& node) {
  CAMSHAFT_ASSIGN(const Pieces pieces, pieces_of(node));
  if (pieces.size == 0) return invalid("pieces of 0");
  CAMSHAFT_ASSIGN(Tensor* const count, count_pieces(node, pieces));
  node.give(0, count);
  return ok_status();
}

Status refuse(Node& node) {
  const std::string reason = node.text("reason", "only tensors are supported");
  return unsupported("sequences and optionals: {}; replace it by Split, Concat or Gather", reason);
}

constexpr OperatorRow kSequenceOperators[] = {
    {"SequenceElement", import_element},
    {"SequenceStack", import_stack},
    {"SequenceConcat", import_sequence_concat},
    {"ConcatFromSequence", import_concat_from},
    {"SequenceFlatten", import_sequence_flatten},
    {"SequencePick", import_pick},
    {"SequenceCount", import_count},
    {"SequenceJoin", import_join},
    {"SequenceRows", import_rows},
    {"SequencePiece", import_piece},
    {"SequencePieces", import_pieces},
    {"SequenceReplace", import_replace},
    {"SequenceReverse", import_reverse},
};
constexpr OperatorRow kRefused = {"", refuse};

}  // namespace

Status refuse_sequences(Node& node) {
  return refuse(node);
}

const OperatorRow* find_sequence_operator(const NodeDef& def) {
  const bool refused = std::any_of(def.attributes.begin(), def.attributes.end(),
                                   [](const auto& a) { return a.name == "reason"; });
  if (!refused)
    for (const OperatorRow& row : kSequenceOperators)
      if (row.op_type == def.op_type) return &row;
  return &kRefused;
}

}  // namespace camshaft::onnx_import
