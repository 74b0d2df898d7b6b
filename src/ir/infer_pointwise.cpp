// SPDX-License-Identifier: Apache-2.0
// Shapes, types and known values of elementwise layers, casts and Q/DQ.
#include <algorithm>
#include <cmath>

#include "ir/infer_internal.h"

namespace camshaft::ir {
namespace {

// Longer lists of truths that symbols decide are masks, not shape arithmetic.
constexpr size_t kMaxTruths = 64;

// 1 where `a` is above 0, else 0. Truths of integers are expressions, too: bounds decide them.
Dim positive(Dim a, SymbolTable& symbols) {
  return symbols.min(symbols.max(a, 0), 1);
}

Dim negation(Dim truth, SymbolTable& symbols) {
  return symbols.sub(1, truth);
}

Dim less(Dim a, Dim b, SymbolTable& symbols) {
  return positive(symbols.sub(b, a), symbols);
}

Dim unequal(Dim a, Dim b, SymbolTable& symbols) {
  return symbols.add(less(a, b, symbols), less(b, a, symbols));
}

std::optional<Dim> divide(bool floating, Dim a, Dim b, SymbolTable& symbols) {
  if (b == Dim(0)) return std::nullopt;
  if (floating)
    return symbols.mod(a, b) == Dim(0) ? std::optional(symbols.floor_div(a, b)) : std::nullopt;
  // Toward zero: what is left of `a` above zero, less what is below. Bounds make one of them 0.
  const SymbolTable::Bounds right = symbols.bounds(b);
  if (right.high < 0) return divide(false, symbols.sub(0, a), symbols.sub(0, b), symbols);
  if (right.low < 0) return std::nullopt;
  const Dim above = symbols.max(a, 0), below = symbols.max(symbols.sub(0, a), 0);
  return symbols.sub(symbols.floor_div(above, b), symbols.floor_div(below, b));
}

// The rest has the sign of `a`.
std::optional<Dim> remainder(Dim a, Dim b, SymbolTable& symbols) {
  if (symbols.bounds(b).low <= 0) return std::nullopt;
  if (symbols.bounds(a).low >= 0) return symbols.mod(a, b);
  return symbols.sub(a, symbols.mul(b, *divide(false, a, b, symbols)));
}

std::optional<Dim> power(Dim a, Dim b, SymbolTable& symbols) {
  if (!symbols.is_number(b) || symbols.number(b) < 0 || symbols.number(b) > 8) return std::nullopt;
  Dim result = 1;
  for (int64_t k = 0; k < symbols.number(b); ++k) result = symbols.mul(result, a);
  return result;
}

std::optional<Dim> evaluate_number(PointOp op, int64_t a) {
  switch (op) {
    case PointOp::kSqrt: {
      const auto root =
          static_cast<int64_t>(std::sqrt(static_cast<double>(std::max<int64_t>(a, 0))));
      return root * root == a ? std::optional<Dim>(root) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<Dim> evaluate_symbolic(PointOp op, bool floating, Dim a, Dim b,
                                     SymbolTable& symbols) {
  switch (op) {
    case PointOp::kIdentity:
    case PointOp::kFloor:
    case PointOp::kCeil:
    case PointOp::kRound:
      return a;
    case PointOp::kNeg:
      return symbols.sub(0, a);
    case PointOp::kAbs:
      return symbols.max(a, symbols.sub(0, a));
    case PointOp::kRelu:
      return symbols.max(a, 0);
    case PointOp::kAdd:
      return symbols.add(a, b);
    case PointOp::kSub:
      return symbols.sub(a, b);
    case PointOp::kMul:
      return symbols.mul(a, b);
    case PointOp::kDiv:
      return divide(floating, a, b, symbols);
    case PointOp::kMod:
      return symbols.bounds(b).low > 0 ? std::optional(symbols.mod(a, b)) : std::nullopt;
    case PointOp::kFmod:
      return floating && symbols.bounds(a).low < 0 ? std::nullopt : remainder(a, b, symbols);
    case PointOp::kMin:
      return symbols.min(a, b);
    case PointOp::kMax:
      return symbols.max(a, b);
    case PointOp::kPow:
      return power(a, b, symbols);
    case PointOp::kEqual:
      return negation(unequal(a, b, symbols), symbols);
    case PointOp::kLess:
      return less(a, b, symbols);
    case PointOp::kLessOrEqual:
      return negation(less(b, a, symbols), symbols);
    case PointOp::kGreater:
      return less(b, a, symbols);
    case PointOp::kGreaterOrEqual:
      return negation(less(a, b, symbols), symbols);
    case PointOp::kAnd:
      return symbols.min(a, b);
    case PointOp::kOr:
      return symbols.max(a, b);
    case PointOp::kXor:
      return unequal(a, b, symbols);
    case PointOp::kNot:
      return negation(a, symbols);
    case PointOp::kSign:
      return symbols.sub(positive(a, symbols), positive(symbols.sub(0, a), symbols));
    default:
      return symbols.is_number(a) ? evaluate_number(op, symbols.number(a)) : std::nullopt;
  }
}

namespace {

// Symbols stand for numbers every integer type of at least 32 bits holds (an extent does); floats
// hold them exactly enough.
std::optional<Dim> cast_value(Dim value, DataType from, DataType to, SymbolTable& symbols) {
  if (to == DataType::kBool) return unequal(value, 0, symbols);
  if (from == DataType::kBool || to == DataType::kInt64 || to == DataType::kFloat ||
      to == DataType::kDouble)
    return value;
  const bool fits =
      symbols.is_number(value) && symbols.number(value) >= 0 && symbols.number(value) < 128;
  if (to == DataType::kInt32) {
    if (!symbols.is_number(value)) return value;
    const int64_t number = symbols.number(value);
    return symbols.number(value) == static_cast<int32_t>(number) ? std::optional(value)
                                                                 : std::nullopt;
  }
  return fits ? std::optional(value) : std::nullopt;
}

// What an operator gives, if its type holds it: integers wrap around.
std::optional<Dim> held(std::optional<Dim> value, DataType type, SymbolTable& symbols) {
  return value && is_integer(type) ? cast_value(*value, DataType::kInt64, type, symbols) : value;
}

}  // namespace

Status infer_unary(Inference& f) {
  CAMSHAFT_TRY(f.require(1));
  const auto& a = f.layer.as<PointOpAttrs>();
  const DataType type = gives_bool(a.op) ? DataType::kBool : f.in(0).type;
  if (!f.ranked(0)) return f.unranked(type);
  if (f.in(0).value) {
    std::vector<Dim> value;
    for (Dim element : *f.in(0).value)
      if (const std::optional<Dim> result = held(
              evaluate_symbolic(a.op, is_floating(type), element, 0, f.symbols), type, f.symbols))
        value.push_back(*result);
    if (value.size() == f.in(0).value->size()) f.out().value = std::move(value);
  }
  return f.give(type, f.shape(0));
}

Status infer_same(Inference& f) {
  CAMSHAFT_TRY(f.require(1));
  f.out().value = f.in(0).value;
  return f.ranked(0) ? f.give(f.in(0).type, f.shape(0)) : f.unranked(f.in(0).type);
}

namespace {

// Values of two inputs under broadcasting: equal counts in the same shape, or one of them a single
// element.
std::optional<std::vector<Dim>> combine(
    const InferInput& a, const InferInput& b,
    const std::function<std::optional<Dim>(Dim, Dim)>& evaluate) {
  if (!a.value || !b.value) return std::nullopt;
  const size_t left = a.value->size(), right = b.value->size();
  const bool same =
      a.shape == b.shape || (a.shape.size() <= 1 && b.shape.size() <= 1 && left == right);
  if (!same && left != 1 && right != 1) return std::nullopt;
  if (left == 0 || right == 0) return std::vector<Dim>();
  std::vector<Dim> value;
  for (size_t k = 0; k < std::max(left, right); ++k) {
    const std::optional<Dim> result =
        evaluate((*a.value)[left == 1 ? 0 : k], (*b.value)[right == 1 ? 0 : k]);
    if (!result) return std::nullopt;
    value.push_back(*result);
  }
  return value;
}

}  // namespace

Status infer_elementwise(Inference& f) {
  CAMSHAFT_TRY(f.require(2));
  const auto& a = f.layer.as<PointOpAttrs>();
  if (f.in(0).type != f.in(1).type)
    return invalid("the inputs have different types: {} and {}", type_name(f.in(0).type),
                   type_name(f.in(1).type));
  const DataType type = gives_bool(a.op) ? DataType::kBool : f.in(0).type;
  if (!f.ranked(0) || !f.ranked(1)) return f.unranked(type);
  CAMSHAFT_ASSIGN(const Shape shape, broadcast_shapes(f.shape(0), f.shape(1), f.symbols));
  const bool floating = is_floating(f.in(0).type);
  f.out().value = combine(f.in(0), f.in(1), [&](Dim x, Dim y) {
    return held(evaluate_symbolic(a.op, floating, x, y, f.symbols), type, f.symbols);
  });
  const auto is_number = [&](Dim dim) { return f.is_number(dim); };
  if (auto& value = f.out().value; gives_bool(a.op) && value && value->size() > kMaxTruths &&
                                   !std::all_of(value->begin(), value->end(), is_number))
    value.reset();
  return f.give(type, shape);
}

Status infer_select(Inference& f) {
  CAMSHAFT_TRY(f.require(3));
  if (f.in(0).type != DataType::kBool)
    return invalid("the condition has type {}", type_name(f.in(0).type));
  if (f.in(1).type != f.in(2).type)
    return invalid("the choices have different types: {} and {}", type_name(f.in(1).type),
                   type_name(f.in(2).type));
  if (!f.ranked(0) || !f.ranked(1) || !f.ranked(2)) return f.unranked(f.in(1).type);
  CAMSHAFT_ASSIGN(const Shape choices, broadcast_shapes(f.shape(1), f.shape(2), f.symbols));
  CAMSHAFT_ASSIGN(const Shape shape, broadcast_shapes(f.shape(0), choices, f.symbols));
  if (f.in(0).value && f.in(1).value && f.in(2).value && shape.size() <= 1) {
    const auto &condition = *f.in(0).value, &yes = *f.in(1).value, &no = *f.in(2).value;
    const size_t count = std::max({condition.size(), yes.size(), no.size()});
    const auto at = [](const std::vector<Dim>& list, size_t k) {
      return list[list.size() == 1 ? 0 : k];
    };
    std::vector<Dim> value;
    for (size_t k = 0; k < count && !yes.empty() && !no.empty() && !condition.empty(); ++k) {
      const Dim other = at(no, k), difference = f.symbols.sub(at(yes, k), other);
      value.push_back(f.symbols.add(other, f.symbols.mul(at(condition, k), difference)));
    }
    f.out().value = std::move(value);
  }
  return f.give(f.in(1).type, shape);
}

Status infer_scale(Inference& f) {
  CAMSHAFT_TRY(f.require(3));
  const int64_t axis = f.layer.as<ScaleAttrs>().axis;
  if (!f.ranked(0)) return f.unranked(f.in(0).type);
  if (axis < 0 || axis >= static_cast<int64_t>(f.rank(0)))
    return invalid("axis {} of {}", axis, to_string(f.shape(0), f.symbols));
  for (size_t k = 1; k < 3; ++k)
    if (f.ranked(k) && (f.rank(k) != 1 || !compatible(f.shape(k)[0], f.shape(0)[axis], f.symbols)))
      return invalid("{} factors for axis {} of {}", to_string(f.shape(k), f.symbols), axis,
                     to_string(f.shape(0), f.symbols));
  return f.give(f.in(0).type, f.shape(0));
}

Status infer_pointwise(Inference& f) {
  const Program& program = f.layer.as<PointWiseAttrs>().program;
  if (program.empty()) return invalid("the program is empty");
  CAMSHAFT_TRY(f.require(static_cast<size_t>(program.num_inputs)));
  const DataType wanted = f.layer.as<PointWiseAttrs>().type;
  const DataType type = wanted != DataType::kUndefined       ? wanted
                        : gives_bool(program.code.back().op) ? DataType::kBool
                                                             : DataType::kFloat;
  Shape shape;
  for (int k = 0; k < program.num_inputs; ++k) {
    if (!f.ranked(k)) return f.unranked(type);
    CAMSHAFT_ASSIGN(shape, broadcast_shapes(shape, f.shape(k), f.symbols));
  }
  return f.give(type, shape);
}

Status infer_cast(Inference& f) {
  CAMSHAFT_TRY(f.require(1));
  const DataType to = f.layer.as<CastAttrs>().to;
  if (!f.ranked(0)) return f.unranked(to);
  if (f.in(0).value) {
    std::vector<Dim> value;
    for (Dim element : *f.in(0).value)
      if (const std::optional<Dim> result = cast_value(element, f.in(0).type, to, f.symbols))
        value.push_back(*result);
    if (value.size() == f.in(0).value->size()) f.out().value = std::move(value);
  }
  return f.give(to, f.shape(0));
}

namespace {

// A scale is one element, one per channel, or (blocked) has the input's rank.
Status check_grid(Inference& f, const QuantizeAttrs& a) {
  if (!f.ranked(0) || !f.ranked(1)) return ok_status();
  const std::optional<int64_t> count = known_elements(f.shape(1), f.symbols);
  if (a.block_size > 0) {
    if (f.rank(0) != f.rank(1)) return invalid("a blocked scale must have the input's rank");
  } else if (f.rank(1) > 1) {
    return invalid("scale {} must be a scalar or a vector", to_string(f.shape(1), f.symbols));
  } else if (f.rank(1) == 1 && count && *count != 1) {
    if (a.axis < 0 || a.axis >= static_cast<int64_t>(f.rank(0)))
      return invalid("axis {} of {}", a.axis, to_string(f.shape(0), f.symbols));
    if (!compatible(f.shape(0)[a.axis], *count, f.symbols))
      return invalid("{} scales for axis {} of {}", *count, a.axis,
                     to_string(f.shape(0), f.symbols));
  }
  if (f.ranked(2) && known_elements(f.shape(2), f.symbols) != count)
    return invalid("scale and zero point have different shapes");
  return ok_status();
}

}  // namespace

Status infer_quantize(Inference& f) {
  CAMSHAFT_TRY(f.require(2));
  const auto& a = f.layer.as<QuantizeAttrs>();
  CAMSHAFT_TRY(check_grid(f, a));
  return f.ranked(0) ? f.give(a.type, f.shape(0)) : f.unranked(a.type);
}

Status infer_dequantize(Inference& f) {
  CAMSHAFT_TRY(f.require(2));
  CAMSHAFT_TRY(check_grid(f, f.layer.as<QuantizeAttrs>()));
  return f.ranked(0) ? f.give(f.in(1).type, f.shape(0)) : f.unranked(f.in(1).type);
}

}  // namespace camshaft::ir
