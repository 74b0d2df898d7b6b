// SPDX-License-Identifier: Apache-2.0
// Activation, Unary, ElementWise, Select, Scale and PointWise. Floating types go through double
// (one rounding at the end is the IEEE result of every basic operation), integers through 64-bit
// integers of their own signedness.
#include <algorithm>
#include <limits>

#include "ir/truth_ops.h"
#include "kernels/reference/access.h"
#include "kernels/reference/tables.h"

namespace camshaft::kernels::reference {
namespace {

using ir::PointOp;

template <class T>
T integer_power(T base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? T(1) : base == T(-1) ? (exponent % 2 ? T(-1) : T(1)) : T(0);
  uint64_t result = 1, factor = static_cast<uint64_t>(base);
  for (; exponent > 0; exponent >>= 1, factor *= factor)
    if (exponent & 1) result *= factor;
  return static_cast<T>(result);
}

template <class T>
T clamp_by_floats(T value, float low, float high) {
  if (static_cast<double>(value) < low) value = static_cast<T>(low);
  if (static_cast<double>(value) > high) value = static_cast<T>(high);
  return value;
}

// T is int64_t or uint64_t; sums and products wrap. `bits` is the width of the real type (shifts
// beyond it give 0).
template <class T>
T integer_point_op(PointOp op, T a, T b, T c, float x, float y, int bits) {
  const auto wrap = [](uint64_t value) { return static_cast<T>(value); };
  const uint64_t ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (op) {
    case PointOp::kConst:
      return static_cast<T>(x);
    case PointOp::kIdentity:
    case PointOp::kFloor:
    case PointOp::kCeil:
    case PointOp::kRound:
      return a;
    case PointOp::kAbs:
      return a < T(0) ? wrap(-ua) : a;
    case PointOp::kNeg:
      return wrap(-ua);
    case PointOp::kSign:
      return a > T(0) ? T(1) : a < T(0) ? wrap(~uint64_t{0}) : T(0);
    case PointOp::kRelu:
      return std::max(a, T(0));
    case PointOp::kClip:
      return clamp_by_floats(a, x, y);
    case PointOp::kNot:
      return a == 0;
    case PointOp::kAdd:
      return wrap(ua + ub);
    case PointOp::kSub:
      return wrap(ua - ub);
    case PointOp::kMul:
      return wrap(ua * ub);
    case PointOp::kFma:
      return wrap(ua * ub + static_cast<uint64_t>(c));
    case PointOp::kDiv:
      if (std::is_signed_v<T> && b == T(-1)) return wrap(-ua);
      return a / b;
    case PointOp::kMod: {
      if (std::is_signed_v<T> && b == T(-1)) return 0;
      const T rest = a % b;
      return rest != 0 && (rest < T(0)) != (b < T(0)) ? rest + b : rest;
    }
    case PointOp::kFmod:
      return std::is_signed_v<T> && b == T(-1) ? 0 : a % b;
    case PointOp::kMin:
      return std::min(a, b);
    case PointOp::kMax:
      return std::max(a, b);
    case PointOp::kPow:
      return integer_power(a, static_cast<int64_t>(b));
    case PointOp::kPRelu:
      return a < T(0) ? wrap(ua * ub) : a;
    case PointOp::kBitAnd:
      return wrap(ua & ub);
    case PointOp::kBitOr:
      return wrap(ua | ub);
    case PointOp::kBitXor:
      return wrap(ua ^ ub);
    case PointOp::kBitNot:
      return wrap(~ua);
    case PointOp::kShiftLeft:
      return ub >= static_cast<uint64_t>(bits) ? T(0) : wrap(ua << ub);
    case PointOp::kShiftRight:
      if (ub >= static_cast<uint64_t>(bits)) return a < T(0) ? static_cast<T>(-1) : T(0);
      return a >> b;
    case PointOp::kSelect:
      return a != 0 ? b : c;
    default:
      if (ir::is_truth_op(op)) return ir::evaluate_truth_op(op, a, b);
      return static_cast<T>(ir::evaluate_point_op(
          op, static_cast<double>(a), static_cast<double>(b), static_cast<double>(c), x, y));
  }
}

struct PointArgs {
  PointOp op;
  float x, y;
  std::vector<TensorView> inputs;  // broadcast to the output
};

template <class T>
Status run_integers(const PointArgs& point, const TensorView& out) {
  std::vector<Ints> values;
  for (const TensorView& view : point.inputs) values.push_back(load<int64_t>(view));
  const int bits = static_cast<int>(ir::bits_of(point.inputs[0].type));
  const bool divides =
      point.op == PointOp::kDiv || point.op == PointOp::kMod || point.op == PointOp::kFmod;
  Ints result(out.elements());
  const size_t arity = values.size();
  for (size_t k = 0; k < result.size(); ++k) {
    const int64_t b = arity > 1 ? values[1][k] : 0, c = arity > 2 ? values[2][k] : 0;
    if (divides && b == 0)
      return make_error(ErrorCode::kInvalidArgument, "integer division by zero");
    result[k] = static_cast<int64_t>(integer_point_op<T>(point.op, static_cast<T>(values[0][k]),
                                                         static_cast<T>(b), static_cast<T>(c),
                                                         point.x, point.y, bits));
  }
  store(out, result);
  return ok_status();
}

Status run_doubles(const PointArgs& point, const TensorView& out) {
  std::vector<std::vector<double>> values;
  for (const TensorView& view : point.inputs) values.push_back(load<double>(view));
  const size_t arity = values.size();
  std::vector<double> result(out.elements());
  for (size_t k = 0; k < result.size(); ++k)
    result[k] =
        ir::evaluate_point_op(point.op, arity > 0 ? values[0][k] : 0, arity > 1 ? values[1][k] : 0,
                              arity > 2 ? values[2][k] : 0, point.x, point.y);
  if (ir::is_integer(out.type)) {  // int ^ float: the type of the base, cut off as a C cast
    store(out, Ints(result.begin(), result.end()));
  } else {
    store(out, result);
  }
  return ok_status();
}

bool is_whole(DataType type) {
  return ir::is_integer(type) || type == DataType::kBool;
}

Status run_select(const PointArgs& point, const TensorView& out) {
  const std::vector<int64_t> condition = load<int64_t>(point.inputs[0]);
  if (is_whole(out.type)) {
    Ints a = load<int64_t>(point.inputs[1]);
    const Ints b = load<int64_t>(point.inputs[2]);
    for (size_t k = 0; k < a.size(); ++k)
      if (!condition[k]) a[k] = b[k];
    store(out, a);
  } else {
    std::vector<double> a = load<double>(point.inputs[1]);
    const std::vector<double> b = load<double>(point.inputs[2]);
    for (size_t k = 0; k < a.size(); ++k)
      if (!condition[k]) a[k] = b[k];
    store(out, a);
  }
  return ok_status();
}

Status point_op(const KernelArgs& args) {
  const auto& attrs = args.layer->as<ir::PointOpAttrs>();
  const TensorView& out = args.outputs[0];
  PointArgs point{attrs.op, attrs.x, attrs.y, {}};
  for (const TensorView& view : args.inputs)
    if (view.present()) point.inputs.push_back(broadcast_to(view, extents_of(out)));
  if (static_cast<int>(point.inputs.size()) != ir::arity(attrs.op))
    return make_error(ErrorCode::kInternal, "{} takes {} inputs, not {}",
                      ir::point_op_name(attrs.op), ir::arity(attrs.op), point.inputs.size());
  if (attrs.op == PointOp::kSelect) return run_select(point, out);
  const bool whole = !point.inputs.empty() &&
                     std::all_of(point.inputs.begin(), point.inputs.end(),
                                 [](const TensorView& view) { return is_whole(view.type); });
  if (!whole) return run_doubles(point, out);
  return point.inputs[0].type == DataType::kUInt64 ? run_integers<uint64_t>(point, out)
                                                   : run_integers<int64_t>(point, out);
}

Status scale(const KernelArgs& args) {
  const auto& attrs = args.layer->as<ir::ScaleAttrs>();
  const TensorView& y = args.outputs[0];
  std::vector<double> values = load<double>(args.inputs[0]);
  const std::vector<double> factor = load<double>(args.inputs[1]),
                            shift = load<double>(input(args, 2));
  const Extents extents = extents_of(y);
  CAMSHAFT_ASSIGN(const int64_t axis, normalize_axis(attrs.axis, y.rank));
  const int64_t channels = extents[axis],
                inner = count_of(std::span<const int64_t>(extents).subspan(axis + 1));
  for (const auto* vector : {&factor, &shift})
    if (static_cast<int64_t>(vector->size()) != channels && vector->size() > 1)
      return make_error(ErrorCode::kInvalidArgument, "{} scales for {} channels", vector->size(),
                        channels);
  for (size_t k = 0; k < values.size(); ++k) {
    const int64_t c = static_cast<int64_t>(k) / inner % channels;
    const double add = shift.empty() ? 0 : shift[shift.size() == 1 ? 0 : c];
    values[k] = values[k] * factor[factor.size() == 1 ? 0 : c] + add;
  }
  store(y, values);
  return ok_status();
}

Status pointwise(const KernelArgs& args) {
  const auto& attrs = args.layer->as<ir::PointWiseAttrs>();
  const TensorView& y = args.outputs[0];
  std::vector<std::vector<float>> inputs;
  std::vector<const float*> pointers;
  for (const TensorView& view : args.inputs)
    inputs.push_back(load<float>(broadcast_to(view, extents_of(y))));
  for (const auto& values : inputs) pointers.push_back(values.data());
  std::vector<float> result(y.elements());
  evaluate_program(attrs.program, pointers, static_cast<int64_t>(result.size()), result.data());
  store(y, result);
  return ok_status();
}

}  // namespace

std::span<const KindRow> pointwise_kinds() {
  static constexpr KindRow kRows[] = {
      {ir::LayerKind::kActivation, {point_op, nullptr}},
      {ir::LayerKind::kUnary, {point_op, nullptr}},
      {ir::LayerKind::kElementWise, {point_op, nullptr}},
      {ir::LayerKind::kSelect, {point_op, nullptr}},
      {ir::LayerKind::kScale, {scale, nullptr}},
      {ir::LayerKind::kPointWise, {pointwise, nullptr}},
  };
  return kRows;
}

}  // namespace camshaft::kernels::reference
