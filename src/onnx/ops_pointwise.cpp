// SPDX-License-Identifier: Apache-2.0
// Elementwise operators, casts and selection.
#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/node.h"

namespace camshaft::onnx_import {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// --- one input: operator, kind, and the attributes that become its literals

struct UnaryRow {
  std::string_view op_type;
  PointOp op;
  LayerKind kind;
  const char* x_name = nullptr;
  float x = 0;
  const char* y_name = nullptr;
  float y = 0;
};

constexpr LayerKind kActivation = LayerKind::kActivation, kUnary = LayerKind::kUnary;
constexpr UnaryRow kUnaryRows[] = {
    {"Relu", PointOp::kRelu, kActivation},
    {"Sigmoid", PointOp::kSigmoid, kActivation},
    {"Tanh", PointOp::kTanh, kActivation},
    {"LeakyRelu", PointOp::kLeakyRelu, kActivation, "alpha", 0.01f},
    {"Elu", PointOp::kElu, kActivation, "alpha", 1},
    {"Selu", PointOp::kSelu, kActivation, "alpha", 1.67326319217681884765625f, "gamma",
     1.05070102214813232421875f},
    {"Celu", PointOp::kCelu, kActivation, "alpha", 1},
    {"HardSigmoid", PointOp::kHardSigmoid, kActivation, "alpha", 0.2f, "beta", 0.5f},
    {"HardSwish", PointOp::kHardSwish, kActivation},
    {"Softplus", PointOp::kSoftplus, kActivation},
    {"Softsign", PointOp::kSoftsign, kActivation},
    {"Mish", PointOp::kMish, kActivation},
    {"ThresholdedRelu", PointOp::kThresholdedRelu, kActivation, "alpha", 1},
    {"Shrink", PointOp::kShrink, kActivation, "lambd", 0.5f, "bias", 0},
    {"Swish", PointOp::kSilu, kActivation, "alpha", 1},
    {"Identity", PointOp::kIdentity, kUnary},
    {"Abs", PointOp::kAbs, kUnary},
    {"Neg", PointOp::kNeg, kUnary},
    {"Sign", PointOp::kSign, kUnary},
    {"Sqrt", PointOp::kSqrt, kUnary},
    {"Reciprocal", PointOp::kReciprocal, kUnary},
    {"Exp", PointOp::kExp, kUnary},
    {"Log", PointOp::kLog, kUnary},
    {"Erf", PointOp::kErf, kUnary},
    {"Floor", PointOp::kFloor, kUnary},
    {"Ceil", PointOp::kCeil, kUnary},
    {"Round", PointOp::kRound, kUnary},
    {"Sin", PointOp::kSin, kUnary},
    {"Cos", PointOp::kCos, kUnary},
    {"Tan", PointOp::kTan, kUnary},
    {"Asin", PointOp::kAsin, kUnary},
    {"Acos", PointOp::kAcos, kUnary},
    {"Atan", PointOp::kAtan, kUnary},
    {"Sinh", PointOp::kSinh, kUnary},
    {"Cosh", PointOp::kCosh, kUnary},
    {"Asinh", PointOp::kAsinh, kUnary},
    {"Acosh", PointOp::kAcosh, kUnary},
    {"Atanh", PointOp::kAtanh, kUnary},
    {"Not", PointOp::kNot, kUnary},
    {"IsNaN", PointOp::kIsNan, kUnary},
    {"BitwiseNot", PointOp::kBitNot, kUnary},
};

Status import_unary(Node& node) {
  const UnaryRow& row =
      *std::find_if(std::begin(kUnaryRows), std::end(kUnaryRows),
                    [&](const UnaryRow& entry) { return entry.op_type == node.op(); });
  CAMSHAFT_TRY(node.require(1, 1));
  ir::PointOpAttrs attrs{row.op};
  if (row.x_name) attrs.x = node.real(row.x_name, row.x);
  if (row.y_name) attrs.y = node.real(row.y_name, row.y);
  return node.emit(row.kind, attrs, node.inputs());
}

Status import_gelu(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  const std::string approximation = node.text("approximate", "none");
  if (approximation != "none" && approximation != "tanh")
    return invalid("approximate \"{}\"", approximation);
  return node.emit(kActivation,
                   ir::PointOpAttrs{approximation == "tanh" ? PointOp::kGeluTanh : PointOp::kGelu},
                   node.inputs());
}

Status import_is_inf(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  const bool negative = node.flag("detect_negative", true),
             positive = node.flag("detect_positive", true);
  return node.emit(
      kUnary, ir::PointOpAttrs{PointOp::kIsInf, negative ? 1.0f : 0.0f, positive ? 1.0f : 0.0f},
      node.inputs());
}

Status import_identity_with_mask(Node& node) {  // Dropout
  CAMSHAFT_TRY(node.require(1, 3));
  node.ignore({"ratio", "seed", "is_test"});
  const bool has_inputs = node.opset() >= 12;
  const std::optional<double> training = has_inputs && node.has(2) ? node.scalar(2) : 0;
  const std::optional<double> ratio = has_inputs && node.has(1) ? node.scalar(1) : 0.5;
  const bool drops = (!training || *training != 0) && (!ratio || *ratio != 0);
  if (drops) return import_generic(node);
  CAMSHAFT_TRY(node.emit_to(0, kUnary, ir::PointOpAttrs{PointOp::kIdentity}, {node.input(0)}));
  if (!node.wants(1)) return ok_status();
  CAMSHAFT_TRY(node.rank(0).status());
  ir::FillAttrs mask;
  mask.type = node.opset() >= 10 ? DataType::kBool : node.input(0)->type;
  mask.value = 1;
  mask.shape = node.input(0)->shape;
  return node.emit_to(1, LayerKind::kFill, mask, {});
}

// --- Clip

Status import_clip(Node& node) {
  CAMSHAFT_TRY(node.require(1, 3));
  Tensor* x = node.input(0);
  const bool in_attributes = node.opset() < 11;
  std::optional<double> low = -kInfinity, high = kInfinity;
  if (in_attributes) {
    low = node.real("min", -kInfinity);
    high = node.real("max", kInfinity);
  } else {
    if (node.has(1)) low = node.scalar(1);
    if (node.has(2)) high = node.scalar(2);
  }
  for (size_t k = 1; k < 3; ++k)
    if (node.has(k) && node.input(k)->type != x->type)
      return invalid("the bounds have another type than the input");
  const auto is_float = [](double value) {
    return std::isinf(value) || static_cast<double>(static_cast<float>(value)) == value;
  };
  if (ir::is_floating(x->type) && low && high && is_float(*low) && is_float(*high))
    return node.emit(
        kActivation,
        ir::PointOpAttrs{PointOp::kClip, static_cast<float>(*low), static_cast<float>(*high)}, {x});
  if (node.has(1) && node.has(2)) {
    CAMSHAFT_ASSIGN(x, node.binary("max", PointOp::kMax, x, node.input(1)));
    return node.emit(LayerKind::kElementWise, ir::PointOpAttrs{PointOp::kMin}, {x, node.input(2)});
  }
  if (node.has(1))
    return node.emit(LayerKind::kElementWise, ir::PointOpAttrs{PointOp::kMax}, {x, node.input(1)});
  if (node.has(2))
    return node.emit(LayerKind::kElementWise, ir::PointOpAttrs{PointOp::kMin}, {x, node.input(2)});
  return node.emit(kUnary, ir::PointOpAttrs{PointOp::kIdentity}, {x});
}

// --- two inputs

struct BinaryRow {
  std::string_view op_type;
  PointOp op;
};
constexpr BinaryRow kBinaryRows[] = {
    {"Add", PointOp::kAdd},
    {"Sub", PointOp::kSub},
    {"Mul", PointOp::kMul},
    {"Div", PointOp::kDiv},
    {"Equal", PointOp::kEqual},
    {"Less", PointOp::kLess},
    {"LessOrEqual", PointOp::kLessOrEqual},
    {"Greater", PointOp::kGreater},
    {"GreaterOrEqual", PointOp::kGreaterOrEqual},
    {"And", PointOp::kAnd},
    {"Or", PointOp::kOr},
    {"Xor", PointOp::kXor},
    {"BitwiseAnd", PointOp::kBitAnd},
    {"BitwiseOr", PointOp::kBitOr},
    {"BitwiseXor", PointOp::kBitXor},
};

// Before opset 7 the second operand was aligned by the attributes broadcast and axis.
Result<Tensor*> align_operand(Node& node) {
  Tensor* b = node.input(1);
  if (node.opset() >= 7) return b;
  const bool broadcast = node.flag("broadcast", false);
  const bool has_axis = node.has_attribute("axis");
  const int64_t given = node.integer("axis", 0);
  if (!broadcast || !has_axis) return b;
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  CAMSHAFT_ASSIGN(const size_t b_rank, node.rank(1));
  CAMSHAFT_ASSIGN(const int64_t axis, node.axis(given, rank));
  if (b_rank == 0 || axis + b_rank >= rank) return b;
  Shape shape = b->shape;
  while (shape.size() + axis < rank) shape.push_back(1);
  return node.reshape("align", b, shape);
}

Status import_binary(Node& node) {
  CAMSHAFT_TRY(node.require(2, 2));
  const BinaryRow& row =
      *std::find_if(std::begin(kBinaryRows), std::end(kBinaryRows),
                    [&](const BinaryRow& entry) { return entry.op_type == node.op(); });
  CAMSHAFT_ASSIGN(Tensor* const b, align_operand(node));
  return node.emit(LayerKind::kElementWise, ir::PointOpAttrs{row.op}, {node.input(0), b});
}

Status import_prelu(Node& node) {
  CAMSHAFT_TRY(node.require(2, 2));
  Tensor* slope = node.input(1);
  if (node.opset() < 7) {  // one slope per channel
    CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
    CAMSHAFT_ASSIGN(const size_t slope_rank, node.rank(1));
    if (slope_rank == 1 && rank > 2) {
      Shape shape = slope->shape;
      while (shape.size() + 1 < rank) shape.push_back(1);
      CAMSHAFT_ASSIGN(slope, node.reshape("slope", slope, shape));
    }
  }
  return node.emit(LayerKind::kElementWise, ir::PointOpAttrs{PointOp::kPRelu},
                   {node.input(0), slope});
}

Status import_pow(Node& node) {
  CAMSHAFT_TRY(node.require(2, 2));
  Tensor* x = node.input(0);
  CAMSHAFT_ASSIGN(Tensor * exponent, align_operand(node));
  if (x->type == exponent->type)
    return node.emit(LayerKind::kElementWise, ir::PointOpAttrs{PointOp::kPow}, {x, exponent});
  const bool through_float = ir::is_floating(exponent->type) && !ir::is_floating(x->type);
  CAMSHAFT_ASSIGN(Tensor* const base,
                  node.cast("base", x, through_float ? exponent->type : x->type));
  CAMSHAFT_ASSIGN(exponent, node.cast("exponent", exponent, base->type));
  if (!through_float)
    return node.emit(LayerKind::kElementWise, ir::PointOpAttrs{PointOp::kPow}, {base, exponent});
  CAMSHAFT_ASSIGN(Tensor* const power, node.binary("power", PointOp::kPow, base, exponent));
  return node.emit(LayerKind::kCast, ir::CastAttrs{x->type}, {power});
}

Status import_mod(Node& node) {
  CAMSHAFT_TRY(node.require(2, 2));
  const bool fmod = node.flag("fmod", false);
  return node.emit(LayerKind::kElementWise, ir::PointOpAttrs{fmod ? PointOp::kFmod : PointOp::kMod},
                   node.inputs());
}

Status import_bit_shift(Node& node) {
  CAMSHAFT_TRY(node.require(2, 2));
  const std::string direction = node.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") return invalid("direction \"{}\"", direction);
  return node.emit(
      LayerKind::kElementWise,
      ir::PointOpAttrs{direction == "LEFT" ? PointOp::kShiftLeft : PointOp::kShiftRight},
      node.inputs());
}

// --- any number of inputs

template <PointOp op>
Status import_variadic(Node& node) {
  CAMSHAFT_TRY(node.require(std::max<size_t>(node.input_count(), 1)));
  Tensor* result = node.input(0);
  const size_t count = node.input_count();
  if (count == 1) return node.emit(kUnary, ir::PointOpAttrs{PointOp::kIdentity}, {result});
  for (size_t k = 1; k + 1 < count; ++k) {
    CAMSHAFT_ASSIGN(result, node.binary(std::to_string(k), op, result, node.input(k)));
  }
  return node.emit(LayerKind::kElementWise, ir::PointOpAttrs{op}, {result, node.input(count - 1)});
}

Status import_mean(Node& node) {
  CAMSHAFT_TRY(node.require(std::max<size_t>(node.input_count(), 1)));
  Tensor* sum = node.input(0);
  for (size_t k = 1; k < node.input_count(); ++k) {
    CAMSHAFT_ASSIGN(sum, node.binary(std::to_string(k), PointOp::kAdd, sum, node.input(k)));
  }
  Tensor* count = node.scalar_like("count", sum->type, static_cast<double>(node.input_count()));
  return node.emit(LayerKind::kElementWise, ir::PointOpAttrs{PointOp::kDiv}, {sum, count});
}

// --- types and choice

Status import_cast(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  node.ignore({"saturate", "round_mode"});  // of the 8-bit float types only
  const int64_t to = node.integer("to", 0);
  CAMSHAFT_TRY(node.attribute_status());
  if (to < 0 || to > std::numeric_limits<int32_t>::max())
    return invalid("{} is not an element type", to);
  CAMSHAFT_ASSIGN(const DataType type, element_type(static_cast<int32_t>(to)));
  return node.emit(LayerKind::kCast, ir::CastAttrs{type}, node.inputs());
}

Status import_cast_like(Node& node) {
  CAMSHAFT_TRY(node.require(2, 2));
  node.ignore({"saturate", "round_mode"});
  return node.emit(LayerKind::kCast, ir::CastAttrs{node.input(1)->type}, {node.input(0)});
}

Status import_where(Node& node) {
  CAMSHAFT_TRY(node.require(3, 3));
  return node.emit(LayerKind::kSelect, ir::PointOpAttrs{PointOp::kSelect}, node.inputs());
}

constexpr OperatorRow kPointwiseOperators[] = {
    {"Gelu", import_gelu},
    {"IsInf", import_is_inf},
    {"Dropout", import_identity_with_mask},
    {"Clip", import_clip},
    {"PRelu", import_prelu},
    {"Pow", import_pow},
    {"Mod", import_mod},
    {"BitShift", import_bit_shift},
    {"Sum", import_variadic<PointOp::kAdd>},
    {"Max", import_variadic<PointOp::kMax>},
    {"Min", import_variadic<PointOp::kMin>},
    {"Mean", import_mean},
    {"Cast", import_cast},
    {"CastLike", import_cast_like},
    {"Where", import_where},
};

std::vector<OperatorRow> pointwise_rows() {
  std::vector<OperatorRow> rows(std::begin(kPointwiseOperators), std::end(kPointwiseOperators));
  for (const UnaryRow& row : kUnaryRows) rows.push_back({row.op_type, import_unary});
  for (const BinaryRow& row : kBinaryRows) rows.push_back({row.op_type, import_binary});
  return rows;
}

}  // namespace

std::span<const OperatorRow> pointwise_operators() {
  static const std::vector<OperatorRow> rows = pointwise_rows();
  return rows;
}

}  // namespace camshaft::onnx_import
