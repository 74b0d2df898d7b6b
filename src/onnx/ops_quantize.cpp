// SPDX-License-Identifier: Apache-2.0
// Q/DQ and the quantized operators, which become Q/DQ around the float ones.
#include <algorithm>
#include <numeric>

#include "ir/extents.h"
#include "onnx/ops_quantized.h"

namespace camshaft::onnx_import {
namespace {

std::vector<Tensor*> without_absent(std::vector<Tensor*> inputs) {
  while (!inputs.empty() && inputs.back() == nullptr) inputs.pop_back();
  return inputs;
}

bool is_scalar(const Tensor* tensor) {
  return tensor->has_rank &&
         (tensor->shape.empty() || (tensor->shape.size() == 1 && tensor->shape[0] == Dim(1)));
}

// The axis matters only for a scale with several elements.
Result<int64_t> scale_axis(Node& node, const Tensor* scale, int64_t block_size) {
  const int64_t given = node.integer("axis", 1);
  if (is_scalar(scale) && block_size == 0) return 1;
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  return node.axis(given, rank);
}

Result<DataType> output_type(Node& node, DataType fallback) {
  const int64_t given = node.integer("output_dtype", 0);
  if (given == 0) return fallback;
  if (given < 0 || given > 1000) return invalid("output_dtype {}", given);
  return element_type(static_cast<int32_t>(given));
}

Status import_quantize(Node& node) {
  CAMSHAFT_TRY(node.require(2, 3));
  node.ignore({"saturate", "precision"});
  ir::QuantizeAttrs attrs;
  attrs.block_size = node.integer("block_size", 0);
  CAMSHAFT_ASSIGN(attrs.axis, scale_axis(node, node.input(1), attrs.block_size));
  CAMSHAFT_ASSIGN(attrs.type,
                  output_type(node, node.has(2) ? node.input(2)->type : DataType::kUInt8));
  if (node.has(2) && node.input(2)->type != attrs.type)
    return invalid("the zero point has another type than the output");
  return node.emit(LayerKind::kQuantize, attrs, node.inputs());
}

Status import_dequantize(Node& node) {
  CAMSHAFT_TRY(node.require(2, 3));
  ir::QuantizeAttrs attrs;
  attrs.type = node.input(0)->type;
  attrs.block_size = node.integer("block_size", 0);
  CAMSHAFT_ASSIGN(attrs.axis, scale_axis(node, node.input(1), attrs.block_size));
  CAMSHAFT_ASSIGN(const DataType type, output_type(node, node.input(1)->type));
  if (node.has(2) && node.input(2)->type != attrs.type)
    return invalid("the zero point has another type than the input");
  if (type == node.input(1)->type) return node.emit(LayerKind::kDequantize, attrs, node.inputs());
  CAMSHAFT_ASSIGN(Tensor* const y,
                  node.add("dequantize", LayerKind::kDequantize, attrs, node.inputs()));
  return node.emit(LayerKind::kCast, ir::CastAttrs{type}, {y});
}

}  // namespace

// --- quantized operators

Result<Tensor*> dequantize(Node& node, std::string_view step, Tensor* x, Tensor* scale,
                           Tensor* zero_point, int64_t axis) {
  ir::QuantizeAttrs attrs;
  attrs.type = x->type;
  attrs.axis = axis;
  return node.add(step, LayerKind::kDequantize, attrs, without_absent({x, scale, zero_point}));
}

Status quantize_output(Node& node, Tensor* y, Tensor* scale, Tensor* zero_point) {
  ir::QuantizeAttrs attrs;
  attrs.type = zero_point != nullptr ? zero_point->type : DataType::kUInt8;
  return node.emit(LayerKind::kQuantize, attrs, without_absent({y, scale, zero_point}));
}

namespace {

bool is_float_constant(const Tensor* tensor) {
  return tensor->is_constant() && tensor->type == DataType::kFloat;
}

}  // namespace

Result<Tensor*> dequantize_bias(Node& node, Tensor* bias, Tensor* scale_a, Tensor* scale_b,
                                float factor) {
  // A scale per element of a vector, or one: DequantizeLinear has a form for it.
  if (is_float_constant(scale_a) && is_float_constant(scale_b) && is_scalar(scale_a) &&
      bias->type == DataType::kInt32 && bias->has_rank && bias->shape.size() == 1 &&
      scale_b->shape.size() <= 1) {
    std::vector<float> scales;
    for (float scale : scale_b->values<float>())
      scales.push_back(scale_a->values<float>()[0] * scale * factor);
    const ir::Extents extents = ir::extents_of(scale_b->shape);
    return dequantize(node, "bias", bias, node.float_constant("bias_scale", extents, scales),
                      nullptr, 0);
  }
  CAMSHAFT_ASSIGN(Tensor * scale, node.binary("bias_scale", PointOp::kMul, scale_b, scale_a));
  if (factor != 1) {
    CAMSHAFT_ASSIGN(scale, node.binary("bias_factor", PointOp::kMul, scale,
                                       node.scalar_like("alpha", scale->type, factor)));
  }
  CAMSHAFT_ASSIGN(Tensor* const value, node.cast("bias_value", bias, scale_a->type));
  return node.binary("bias", PointOp::kMul, value, scale);
}

namespace {

// Inputs: x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias.
Status import_qlinear_conv(Node& node) {
  CAMSHAFT_TRY(node.require(8, 9));
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(3));
  if (rank < 3) return invalid("weights of rank {}", rank);
  const bool is_last = node.flag("channels_last", false);  // in domain com.microsoft
  Tensor* codes = node.input(0);
  if (is_last) {
    CAMSHAFT_ASSIGN(codes, channels_first(node, codes));
  }
  CAMSHAFT_ASSIGN(Tensor* const x, dequantize(node, "x", codes, node.input(1), node.input(2), 1));
  CAMSHAFT_ASSIGN(Tensor* const w,
                  dequantize(node, "w", node.input(3), node.input(4), node.input(5), 0));
  std::vector<Tensor*> inputs = {x, w};
  if (node.has(8)) {
    CAMSHAFT_ASSIGN(Tensor* const bias,
                    dequantize_bias(node, node.input(8), node.input(1), node.input(4)));
    inputs.push_back(bias);
  }
  CAMSHAFT_ASSIGN(ir::ConvolutionAttrs attrs, read_convolution(node, w));
  CAMSHAFT_ASSIGN(Tensor * y, node.add("convolution", LayerKind::kConvolution, std::move(attrs),
                                       std::move(inputs)));
  if (is_last) {
    CAMSHAFT_ASSIGN(y, channels_last(node, y));
  }
  return quantize_output(node, y, node.input(6), node.input(7));
}

// Inputs: a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero.
Status import_qlinear_matmul(Node& node) {
  CAMSHAFT_TRY(node.require(8, 8));
  CAMSHAFT_ASSIGN(const size_t a_rank, node.rank(0));
  CAMSHAFT_ASSIGN(const size_t b_rank, node.rank(3));
  if (a_rank < 1 || b_rank < 1) return invalid("a factor is a scalar");
  // Scales of several elements belong to the rows of a and the columns of b.
  const int64_t a_axis = std::max<int64_t>(static_cast<int64_t>(a_rank) - 2, 0),
                b_axis = static_cast<int64_t>(b_rank) - 1;
  for (size_t k : {1, 4, 6})
    if (!is_scalar(node.input(k)) && (!node.input(k)->has_rank || node.input(k)->shape.size() > 1))
      return unsupported("a scale that is neither a scalar nor a vector");
  CAMSHAFT_ASSIGN(Tensor* const a,
                  dequantize(node, "a", node.input(0), node.input(1), node.input(2), a_axis));
  CAMSHAFT_ASSIGN(Tensor* const b,
                  dequantize(node, "b", node.input(3), node.input(4), node.input(5), b_axis));
  CAMSHAFT_ASSIGN(Tensor* const y, node.add("product", LayerKind::kMatrixMultiply,
                                            ir::MatrixMultiplyAttrs{}, {a, b}));
  return quantize_output(node, y, node.input(6), node.input(7));
}

// The zero point at input k as a number; empty: it is not one constant.
std::optional<int64_t> constant_zero_point(const Node& node, size_t k) {
  if (!node.has(k)) return 0;
  const std::optional<std::vector<double>> values = node.reals(k);
  if (!values || values->size() != 1) return std::nullopt;
  return static_cast<int64_t>((*values)[0]);
}

// 8-bit constant k less `zero_point`, as int8; null: it does not fit.
Tensor* symmetric_weights(Node& node, size_t k, int64_t zero_point) {
  Tensor* codes = node.input(k);
  const std::optional<std::vector<double>> values = node.reals(k);
  if (!values || !ir::is_quantized(codes->type)) return nullptr;
  if (codes->type == DataType::kInt8 && zero_point == 0) return codes;
  std::vector<std::byte> bytes;
  for (double value : *values) {
    const double shifted = value - static_cast<double>(zero_point);
    if (shifted < -128 || shifted > 127) return nullptr;
    bytes.push_back(static_cast<std::byte>(static_cast<int8_t>(shifted)));
  }
  return node.constant("weights", DataType::kInt8, ir::extents_of(codes->shape), std::move(bytes));
}

// Inputs of the integer products: a, b, a_zero, b_zero. With constant zero points (of convolutions:
// and weights) they are quantized layers that give their accumulators; else operators of their own.
Status import_conv_integer(Node& node) {
  CAMSHAFT_TRY(node.require(2, 4));
  const std::optional<int64_t> x_zero = constant_zero_point(node, 2),
                               w_zero = constant_zero_point(node, 3);
  Tensor* const w = x_zero && w_zero ? symmetric_weights(node, 1, *w_zero) : nullptr;
  if (!w || !ir::is_quantized(node.input(0)->type)) return import_generic(node);
  CAMSHAFT_ASSIGN(ir::ConvolutionAttrs attrs, read_convolution(node, w));
  attrs.zero_point = *x_zero;
  attrs.type = DataType::kInt32;
  return node.emit(LayerKind::kConvolution, std::move(attrs), {node.input(0), w});
}

// Input k, a zero point that only running may tell, as a scalar; null: there is none.
Result<Tensor*> zero_point_of(Node& node, size_t k, std::string_view step) {
  if (!node.has(k)) return nullptr;
  CAMSHAFT_ASSIGN(Tensor* const zero, node.cast(step, node.input(k), DataType::kInt32));
  if (zero->shape.empty()) return zero;
  return node.reshape(fmt::format("{} as scalar", step), zero, {});
}

// Sums of the columns of b, or of the rows of a, as products with ones.
Result<Tensor*> code_sums(Node& node, bool of_columns) {
  const int64_t depth = node.input(0)->shape.back().extent();
  const Ints extents = of_columns ? Ints{1, depth} : Ints{depth, 1};
  Tensor* const ones =
      node.constant(of_columns ? "ones" : "ones of rows", DataType::kUInt8, extents,
                    std::vector<std::byte>(static_cast<size_t>(depth), std::byte{1}));
  ir::MatrixMultiplyAttrs attrs;
  attrs.type = DataType::kInt32;
  return node.add(of_columns ? "columns" : "rows", LayerKind::kMatrixMultiply, std::move(attrs),
                  of_columns ? std::vector<Tensor*>{ones, node.input(1)}
                             : std::vector<Tensor*>{node.input(0), ones});
}

bool is_one_value(const Tensor* zero) {
  return zero == nullptr ||
         (zero->has_rank && (zero->shape.empty() || zero->shape == Shape{Dim(1)}));
}

// Products of two matrices of codes with zero points that only running tells.
bool takes_late_zero_points(const Node& node) {
  const Tensor *a = node.input(0), *b = node.input(1);
  return !b->is_constant() && a->has_rank && b->has_rank && a->shape.size() > 1 &&
         b->shape.size() > 1 && a->shape.back().is_known() && ir::is_quantized(a->type) &&
         ir::is_quantized(b->type) && is_one_value(node.input(2)) && is_one_value(node.input(3));
}

// Σ (a - za) (b - zb) = Σ a b - za (Σ b - K zb) - zb Σ a.
Status import_late_zero_points(Node& node) {
  ir::MatrixMultiplyAttrs attrs;
  attrs.type = DataType::kInt32;
  CAMSHAFT_ASSIGN(Tensor * sums, node.add("codes", LayerKind::kMatrixMultiply, std::move(attrs),
                                          {node.input(0), node.input(1)}));
  CAMSHAFT_ASSIGN(Tensor* const a_zero, zero_point_of(node, 2, "a zero"));
  CAMSHAFT_ASSIGN(Tensor* const b_zero, zero_point_of(node, 3, "b zero"));
  if (a_zero != nullptr) {
    CAMSHAFT_ASSIGN(Tensor * columns, code_sums(node, true));
    if (b_zero != nullptr) {
      const auto depth = static_cast<double>(node.input(0)->shape.back().extent());
      CAMSHAFT_ASSIGN(Tensor* const all,
                      node.binary("b zeros", PointOp::kMul, b_zero,
                                  node.scalar_like("depth", DataType::kInt32, depth)));
      CAMSHAFT_ASSIGN(columns, node.binary("columns from zero", PointOp::kSub, columns, all));
    }
    CAMSHAFT_ASSIGN(columns, node.binary("of a zero", PointOp::kMul, columns, a_zero));
    CAMSHAFT_ASSIGN(sums, node.binary("from a zero", PointOp::kSub, sums, columns));
  }
  if (b_zero != nullptr) {
    CAMSHAFT_ASSIGN(Tensor * rows, code_sums(node, false));
    CAMSHAFT_ASSIGN(rows, node.binary("of b zero", PointOp::kMul, rows, b_zero));
    CAMSHAFT_ASSIGN(sums, node.binary("from b zero", PointOp::kSub, sums, rows));
  }
  node.give(0, sums);
  return ok_status();
}

Status import_matmul_integer(Node& node) {
  CAMSHAFT_TRY(node.require(2, 4));
  const std::optional<int64_t> a_zero = constant_zero_point(node, 2),
                               b_zero = constant_zero_point(node, 3);
  if (!a_zero || !b_zero || !ir::is_quantized(node.input(0)->type) ||
      !ir::is_quantized(node.input(1)->type))
    return takes_late_zero_points(node) ? import_late_zero_points(node) : import_generic(node);
  ir::MatrixMultiplyAttrs attrs;
  attrs.a_zero_point = *a_zero;
  attrs.type = DataType::kInt32;
  Tensor* b = symmetric_weights(node, 1, *b_zero);
  if (b == nullptr) {
    b = node.input(1);
    attrs.b_zero_point = *b_zero;
  }
  return emit_product(node, std::move(attrs), {node.input(0), b});
}

// 0, 1 …, one per dimension.
Result<Ints> order_of_image(const Tensor* x) {
  if (!x->has_rank || x->shape.size() < 3) return unsupported("channels_last of such a tensor");
  Ints order(x->shape.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace

Result<Tensor*> channels_first(Node& node, Tensor* x) {
  CAMSHAFT_ASSIGN(Ints order, order_of_image(x));
  std::rotate(order.begin() + 1, order.end() - 1, order.end());
  return node.transpose("channels_first", x, std::move(order));
}

Result<Tensor*> channels_last(Node& node, Tensor* x) {
  CAMSHAFT_ASSIGN(Ints order, order_of_image(x));
  std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return node.transpose("channels_last", x, std::move(order));
}

std::span<const OperatorRow> quantize_operators() {
  static constexpr OperatorRow kOperators[] = {
      {"ConvInteger", import_conv_integer}, {"MatMulInteger", import_matmul_integer},
      {"QuantizeLinear", import_quantize},  {"DequantizeLinear", import_dequantize},
      {"QLinearConv", import_qlinear_conv}, {"QLinearMatMul", import_qlinear_matmul},
  };
  return kOperators;
}

}  // namespace camshaft::onnx_import
