// SPDX-License-Identifier: Apache-2.0
// Reductions, and selection along an axis.
#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "onnx/node.h"

namespace camshaft::onnx_import {
namespace {

// max + log(sum(exp(x - max))), whose parts have vector kernels and fuse. The maximum is kept
// finite: infinities stay what they are, and nothing becomes infinity - infinity.
Status emit_log_sum_exp(Node& node, ir::ReduceAttrs attrs) {
  const DataType type = node.input(0)->type;
  CAMSHAFT_ASSIGN(Tensor* const x, node.cast("floats", node.input(0), DataType::kFloat));
  const bool keep_dims = std::exchange(attrs.keep_dims, true);
  const auto bound = [&](std::string_view step, float value) {
    return node.scalar_like(step, DataType::kFloat, value);
  };
  constexpr float kLargest = std::numeric_limits<float>::max();
  attrs.op = ir::ReduceOp::kMax;
  CAMSHAFT_ASSIGN(Tensor * top, node.add("max", LayerKind::kReduce, attrs, {x}));
  CAMSHAFT_ASSIGN(top, node.binary("above", PointOp::kMax, top, bound("least", -kLargest)));
  CAMSHAFT_ASSIGN(top, node.binary("below", PointOp::kMin, top, bound("most", kLargest)));
  CAMSHAFT_ASSIGN(Tensor * y, node.binary("shifted", PointOp::kSub, x, top));
  CAMSHAFT_ASSIGN(y, node.unary("exp", PointOp::kExp, y));
  attrs.op = ir::ReduceOp::kSum;
  CAMSHAFT_ASSIGN(y, node.add("sum", LayerKind::kReduce, attrs, {y}));
  CAMSHAFT_ASSIGN(y, node.unary("log", PointOp::kLog, y));
  CAMSHAFT_ASSIGN(y, node.binary("value", PointOp::kAdd, y, top));
  Shape shape;
  for (size_t d = 0; d < y->shape.size(); ++d)
    if (keep_dims || std::find(attrs.axes.begin(), attrs.axes.end(), static_cast<int64_t>(d)) ==
                         attrs.axes.end())
      shape.push_back(y->shape[d]);
  if (!keep_dims) {
    CAMSHAFT_ASSIGN(y, node.reshape("squeezed", y, shape));
  }
  CAMSHAFT_ASSIGN(y, node.cast("result", y, type));
  node.give(0, y);
  return ok_status();
}

// ReduceSum took its axes as an input from opset 13, the others from 18.
template <ir::ReduceOp op, int64_t axes_input_since>
Status import_reduce(Node& node) {
  const bool as_input = node.opset() >= axes_input_since;
  CAMSHAFT_TRY(node.require(1, as_input ? 2 : 1));
  ir::ReduceAttrs attrs;
  attrs.op = op;
  attrs.keep_dims = node.flag("keepdims", true);
  const bool empty_is_identity = node.flag("noop_with_empty_axes", false);
  std::optional<Ints> given;
  if (!as_input) given = node.integers("axes");
  if (as_input) given = node.has(1) ? node.numbers(1) : Ints();
  attrs.empty_is_none = empty_is_identity && !given;
  if (!given) return node.emit(LayerKind::kReduce, std::move(attrs), node.inputs());
  const bool from_start = !given->empty() && std::all_of(given->begin(), given->end(),
                                                         [](int64_t axis) { return axis >= 0; });
  if (from_start && !node.input(0)->has_rank) {
    attrs.axes = *given;
    std::sort(attrs.axes.begin(), attrs.axes.end());
    return node.emit(LayerKind::kReduce, std::move(attrs), {node.input(0)});
  }
  // Without axes the elementwise part (square, logarithm …) still happens: a reduction over no
  // axis.
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  if (given->empty() && empty_is_identity) {
    const bool plain = op == ir::ReduceOp::kSum || op == ir::ReduceOp::kMean ||
                       op == ir::ReduceOp::kMax || op == ir::ReduceOp::kMin ||
                       op == ir::ReduceOp::kProd;
    if (plain)
      return node.emit(LayerKind::kUnary, ir::PointOpAttrs{PointOp::kIdentity}, {node.input(0)});
    return node.emit(LayerKind::kReduce, std::move(attrs), {node.input(0)});
  }
  for (int64_t number : *given) {
    CAMSHAFT_ASSIGN(const int64_t axis, node.axis(number, rank));
    attrs.axes.push_back(axis);
  }
  if (given->empty()) {
    attrs.axes.resize(rank);
    std::iota(attrs.axes.begin(), attrs.axes.end(), 0);
  }
  std::sort(attrs.axes.begin(), attrs.axes.end());
  attrs.axes.erase(std::unique(attrs.axes.begin(), attrs.axes.end()), attrs.axes.end());
  if (rank == 0 &&
      (op == ir::ReduceOp::kSum || op == ir::ReduceOp::kMean || op == ir::ReduceOp::kMax ||
       op == ir::ReduceOp::kMin || op == ir::ReduceOp::kProd))
    return node.emit(LayerKind::kUnary, ir::PointOpAttrs{PointOp::kIdentity}, {node.input(0)});
  if (op == ir::ReduceOp::kLogSumExp && rank > 0 && computes_in_float(node.input(0)->type))
    return emit_log_sum_exp(node, std::move(attrs));
  return node.emit(LayerKind::kReduce, std::move(attrs), {node.input(0)});
}

template <bool largest>
Status import_arg(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  ir::TopKAttrs attrs;
  attrs.largest = largest;
  CAMSHAFT_ASSIGN(attrs.axis, node.axis(node.integer("axis", 0), rank));
  attrs.keep_dims = node.flag("keepdims", true);
  attrs.select_last_index = node.flag("select_last_index", false);
  return node.emit(LayerKind::kArgMinMax, attrs, node.inputs());
}

Status import_topk(Node& node) {
  const bool in_attribute = node.opset() < 10;
  CAMSHAFT_TRY(node.require(in_attribute ? 1 : 2, in_attribute ? 1 : 2));
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  ir::TopKAttrs attrs;
  CAMSHAFT_ASSIGN(attrs.axis, node.axis(node.integer("axis", -1), rank));
  attrs.largest = node.flag("largest", true);
  attrs.sorted = node.flag("sorted", true);
  Tensor* k = node.input(1);
  if (in_attribute) {
    const int64_t extents[] = {1}, values[] = {node.integer("k", 0)};
    k = node.int_constant("k", extents, values);
  }
  return node.emit(LayerKind::kTopK, attrs, {node.input(0), k});
}

Status import_cumsum(Node& node) {
  CAMSHAFT_TRY(node.require(2, 2));
  const bool exclusive = node.flag("exclusive", false), reverse = node.flag("reverse", false);
  const Tensor* x = node.input(0);  // of a scalar: PyTorch and ONNX Runtime give it back
  if (x->has_rank && x->shape.empty() && !exclusive)
    return node.emit(LayerKind::kUnary, ir::PointOpAttrs{ir::PointOp::kIdentity}, {node.input(0)});
  return node.emit(LayerKind::kCumSum, ir::CumSumAttrs{exclusive, reverse}, node.inputs());
}

}  // namespace

std::span<const OperatorRow> reduce_operators() {
  static constexpr OperatorRow kOperators[] = {
      {"ReduceSum", import_reduce<ir::ReduceOp::kSum, 13>},
      {"ReduceMean", import_reduce<ir::ReduceOp::kMean, 18>},
      {"ReduceMax", import_reduce<ir::ReduceOp::kMax, 18>},
      {"ReduceMin", import_reduce<ir::ReduceOp::kMin, 18>},
      {"ReduceProd", import_reduce<ir::ReduceOp::kProd, 18>},
      {"ReduceL1", import_reduce<ir::ReduceOp::kL1, 18>},
      {"ReduceL2", import_reduce<ir::ReduceOp::kL2, 18>},
      {"ReduceLogSum", import_reduce<ir::ReduceOp::kLogSum, 18>},
      {"ReduceLogSumExp", import_reduce<ir::ReduceOp::kLogSumExp, 18>},
      {"ReduceSumSquare", import_reduce<ir::ReduceOp::kSumSquare, 18>},
      {"ArgMax", import_arg<true>},
      {"ArgMin", import_arg<false>},
      {"TopK", import_topk},
      {"CumSum", import_cumsum},
  };
  return kOperators;
}

}  // namespace camshaft::onnx_import
