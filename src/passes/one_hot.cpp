// SPDX-License-Identifier: Apache-2.0
#include "passes/one_hot.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "passes/formula.h"
#include "passes/match.h"

namespace camshaft::passes {

using namespace ir;

namespace {

Shape without(Shape shape, int64_t axis) {
  shape.erase(static_cast<size_t>(axis));
  return shape;
}

// The order without `axis`, which becomes its new place.
Ints drop(const Ints& order, int64_t& axis) {
  if (order.empty()) return order;
  Ints rest;
  for (int64_t from : order)
    if (from != axis) rest.push_back(from < axis ? from : from - 1);
  axis = std::find(order.begin(), order.end(), axis) - order.begin();
  if (is_identity_order(rest)) rest.clear();
  return rest;
}

// The shuffle of the other dimensions; `axis` becomes its new place. Empty: it does not stay whole.
std::optional<ShuffleAttrs> beside_axis(const Layer& shuffle, int64_t& axis) {
  const auto& a = shuffle.as<ShuffleAttrs>();
  const Tensor* x = shuffle.inputs[0];
  if (input_at(shuffle, 1) || !x->has_rank) return std::nullopt;
  Shape from = x->shape;
  for (size_t k = 0; k < a.first_transpose.size(); ++k) from[k] = x->shape[a.first_transpose[k]];
  ShuffleAttrs rest;
  rest.first_transpose = drop(a.first_transpose, axis);
  if (a.has_reshape) {
    SymbolTable& symbols = x->graph->symbols();
    Dim before = 1, outer = 1;
    for (int64_t k = 0; k < axis; ++k) before = symbols.mul(before, from[k]);
    int64_t found = -1;
    for (size_t k = 0; k < a.reshape.size(); outer = symbols.mul(outer, a.reshape[k++]))
      if (outer == before && a.reshape[k] == from[axis]) found = static_cast<int64_t>(k);
    if (found < 0) return std::nullopt;
    axis = found;
    rest.has_reshape = true;
    rest.reshape = without(a.reshape, axis);
  }
  rest.second_transpose = drop(a.second_transpose, axis);
  return rest;
}

std::optional<OneHot> from_operator(const Layer& layer) {
  if (layer.as<GenericAttrs>().op_type != "OneHot" || layer.inputs.size() != 3) return std::nullopt;
  const std::vector<double> depth = numbers_of(layer.inputs[1]),
                            values = numbers_of(layer.inputs[2]);
  if (depth.size() != 1 || depth[0] < 1 || values.size() != 2 || !layer.inputs[0]->has_rank)
    return std::nullopt;
  OneHot code;
  code.indices = layer.inputs[0];
  code.depth = static_cast<int64_t>(depth[0]);
  code.wraps = true;
  code.off = values[0];
  code.on = values[1];
  code.axis = -1;
  for (const GenericAttribute& attribute : layer.as<GenericAttrs>().attributes)
    if (attribute.name == "axis" && !attribute.ints.empty()) code.axis = attribute.ints[0];
  if (code.axis < 0) code.axis += static_cast<int64_t>(layer.inputs[0]->shape.size()) + 1;
  return code;
}

// `range` counts along one dimension: where, from the last one on.
std::optional<size_t> counting_axis_from_back(const Tensor* range, const Ints& values) {
  if (values.empty()) return std::nullopt;
  for (size_t k = 0; k < values.size(); ++k)
    if (values[k] != values[0] + static_cast<int64_t>(k)) return std::nullopt;
  size_t axis = 0;
  for (size_t k = 0; k < range->shape.size(); ++k)
    if (range->shape[k] != Dim(1)) axis = range->shape.size() - k;
  if (range->shape.empty() || axis == 0) return std::nullopt;
  return range->shape[range->shape.size() - axis] == Dim(static_cast<int64_t>(values.size()))
             ? std::optional(axis)
             : std::nullopt;
}

// indices == first … first + depth - 1.
std::optional<OneHot> from_comparison(const Layer& equal) {
  const Shape& shape = equal.outputs[0]->shape;
  for (size_t k : {size_t{0}, size_t{1}}) {
    const Ints values = integers_of(equal.inputs[k]);
    Tensor* indices = equal.inputs[1 - k];
    const std::optional<size_t> back = counting_axis_from_back(equal.inputs[k], values);
    if (!back || *back > shape.size() || !indices->has_rank || indices->is_constant()) continue;
    OneHot code;
    code.indices = indices;
    code.depth = static_cast<int64_t>(values.size());
    code.first = values[0];
    code.axis = static_cast<int64_t>(shape.size() - *back);
    // All other dimensions are the indices' own.
    bool fits = true;
    for (size_t from_back = 1; from_back <= shape.size(); ++from_back) {
      const Dim extent = from_back <= indices->shape.size()
                             ? indices->shape[indices->shape.size() - from_back]
                             : Dim(1);
      fits = fits && extent == (from_back == *back ? Dim(1) : shape[shape.size() - from_back]);
    }
    if (!fits) continue;
    const Shape rest = without(shape, code.axis);
    if (rest != indices->shape) {
      ShuffleAttrs drops;
      drops.has_reshape = true;
      drops.reshape = rest;
      code.moves.push_back(drops);
    }
    return code;
  }
  return std::nullopt;
}

// One value scattered along an axis of a tensor of another.
std::optional<OneHot> from_scatter(const Layer& scatter) {
  const auto& a = scatter.as<ScatterAttrs>();
  const std::optional<double> off = uniform_value(scatter.inputs[0]),
                              on = uniform_value(scatter.inputs[2]);
  Tensor* indices = scatter.inputs[1];
  const Tensor* y = scatter.outputs[0];
  if (a.mode != ScatterMode::kElements || a.reduction != ScatterReduction::kNone || !on || !off ||
      !indices->has_rank || indices->shape.size() != y->shape.size() ||
      !y->shape[a.axis].is_known())
    return std::nullopt;
  Shape one = y->shape;
  one[a.axis] = 1;
  if (indices->shape != one) return std::nullopt;
  OneHot code;
  code.indices = indices;
  code.depth = y->shape[a.axis].extent();
  code.wraps = true;
  code.axis = a.axis;
  code.on = *on;
  code.off = *off;
  ShuffleAttrs drops;
  drops.has_reshape = true;
  drops.reshape = without(one, a.axis);
  code.moves.push_back(drops);
  return code;
}

std::optional<OneHot> behind_shuffle(const Layer& shuffle) {
  std::optional<OneHot> code = one_hot_of(shuffle.inputs[0]);
  if (!code) return std::nullopt;
  const std::optional<ShuffleAttrs> rest = beside_axis(shuffle, code->axis);
  if (!rest) return std::nullopt;
  code->moves.push_back(*rest);
  return code;
}

std::optional<OneHot> behind_cast(const Layer& cast) {
  std::optional<OneHot> code = one_hot_of(cast.inputs[0]);
  if (!code) return std::nullopt;
  const DataType to = cast.as<CastAttrs>().to;
  for (double* value : {&code->on, &code->off}) {
    if (to == DataType::kBool)
      *value = *value != 0;
    else if (!is_floating(to))
      *value = std::trunc(*value);
  }
  return code;
}

std::optional<OneHot> behind_pointwise(const Layer& layer) {
  const Expression expression = expression_of(layer);
  if (expression.inputs.size() != 1 || !same_shape(expression.inputs[0], layer.outputs[0]))
    return std::nullopt;
  std::optional<OneHot> code = one_hot_of(expression.inputs[0]);
  if (!code) return std::nullopt;
  code->on = evaluate(expression.program, {code->on});
  code->off = evaluate(expression.program, {code->off});
  return code;
}

Tensor* constant_of(Rewriter& rewriter, const std::string& name, DataType type, int64_t value) {
  std::vector<std::byte> bytes(bits_of(type) / 8);
  std::memcpy(bytes.data(), &value, bytes.size());  // little endian
  return rewriter.add_constant(name, type, {}, std::move(bytes));
}

}  // namespace

std::optional<OneHot> one_hot_of(const Tensor* tensor) {
  const Layer* layer = tensor->producer;
  if (!layer || !tensor->has_rank || layer->outputs.size() != 1) return std::nullopt;
  switch (layer->kind) {
    case LayerKind::kGeneric:
      return from_operator(*layer);
    case LayerKind::kScatter:
      return from_scatter(*layer);
    case LayerKind::kShuffle:
      return behind_shuffle(*layer);
    case LayerKind::kCast:
      return behind_cast(*layer);
    case LayerKind::kElementWise:
      if (layer->as<PointOpAttrs>().op == PointOp::kEqual) return from_comparison(*layer);
      break;
    default:
      break;
  }
  return is_pointwise(*layer) ? behind_pointwise(*layer) : std::nullopt;
}

Tensor* rows_of(Rewriter& rewriter, const OneHot& code, const Layer* reader) {
  const std::string name = reader->name;
  Tensor* rows = code.indices;
  const auto add = [&](const char* step, LayerKind kind, Attrs attrs, std::vector<Tensor*> inputs,
                       DataType type, const Shape& shape) {
    Tensor* made = rewriter.add_tensor(code.indices->name + " (" + step + ")", type, shape);
    rewriter.insert_before(reader, kind, name + " (" + step + ")", std::move(attrs),
                           std::move(inputs), {made}, {reader});
    return made;
  };
  if (rows->type != DataType::kInt32 && rows->type != DataType::kInt64)
    rows = add("integers", LayerKind::kCast, CastAttrs{DataType::kInt64}, {rows}, DataType::kInt64,
               rows->shape);
  const DataType type = rows->type;
  const auto point = [&](const char* step, PointOp op, Tensor* x, int64_t value) {
    PointOpAttrs attrs;
    attrs.op = op;
    return add(step, LayerKind::kElementWise, attrs,
               {x, constant_of(rewriter, name + " " + step, type, value)},
               op == PointOp::kLess ? DataType::kBool : type, x->shape);
  };
  if (code.first != 0) rows = point("from 0", PointOp::kSub, rows, code.first);
  if (code.wraps) {
    PointOpAttrs select;
    select.op = PointOp::kSelect;
    Tensor* negative = point("negative", PointOp::kLess, rows, 0);
    Tensor* wrapped = point("from the end", PointOp::kAdd, rows, code.depth);
    rows = add("wrapped", LayerKind::kSelect, select, {negative, wrapped, rows}, type, rows->shape);
  }
  rows = point("from -1", PointOp::kMax, rows, -1);
  rows = point("clamped", PointOp::kMin, rows, code.depth);
  Shape shape = rows->shape;
  for (const ShuffleAttrs& move : code.moves) {
    const auto permute = [&](const Ints& order) {
      const Shape old = shape;
      for (size_t k = 0; k < order.size(); ++k) shape[k] = old[order[k]];
    };
    permute(move.first_transpose);
    if (move.has_reshape) shape = move.reshape;
    permute(move.second_transpose);
    rows = add("moved", LayerKind::kShuffle, move, {rows}, type, shape);
  }
  return rows;
}

}  // namespace camshaft::passes
