// SPDX-License-Identifier: Apache-2.0
// The quantized operators of domain com.microsoft (ONNX Runtime's QOperator form) as Q/DQ around
// float layers.
#include <algorithm>

#include "onnx/ops_attention.h"
#include "onnx/ops_contrib.h"
#include "onnx/ops_quantized.h"

namespace camshaft::onnx_import {
namespace {

// Input k, its scale and its zero point, which follow it.
Result<Tensor*> operand(Node& node, std::string_view step, size_t k) {
  return dequantize(node, step, node.input(k), node.input(k + 1), node.input(k + 2), 1);
}

// Inputs: a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero.
template <PointOp op>
Status import_quantized_binary(Node& node) {
  CAMSHAFT_TRY(node.require(7, 8));
  CAMSHAFT_ASSIGN(Tensor* const a, operand(node, "a", 0));
  CAMSHAFT_ASSIGN(Tensor* const b, operand(node, "b", 3));
  CAMSHAFT_ASSIGN(Tensor* const y, node.binary("value", op, a, b));
  return quantize_output(node, y, node.input(6), node.input(7));
}

// Inputs of the unary ones: x, x_scale, x_zero, y_scale, y_zero.
// `is_last`: x and y have their channels last, the layer has them first.
Status emit_unary(Node& node, LayerKind kind, Attrs attrs, bool is_last = false) {
  CAMSHAFT_TRY(node.require(4, 5));
  Tensor* codes = node.input(0);
  if (is_last) {
    CAMSHAFT_ASSIGN(codes, channels_first(node, codes));
  }
  CAMSHAFT_ASSIGN(Tensor* const x, dequantize(node, "x", codes, node.input(1), node.input(2), 1));
  CAMSHAFT_ASSIGN(Tensor * y, node.add("value", kind, std::move(attrs), {x}));
  if (is_last) {
    CAMSHAFT_ASSIGN(y, channels_last(node, y));
  }
  return quantize_output(node, y, node.input(3), node.input(4));
}

Status import_sigmoid(Node& node) {
  return emit_unary(node, LayerKind::kActivation, ir::PointOpAttrs{PointOp::kSigmoid});
}

Status import_leaky_relu(Node& node) {
  return emit_unary(node, LayerKind::kActivation,
                    ir::PointOpAttrs{PointOp::kLeakyRelu, node.real("alpha", 0.01f)});
}

Status emit_pooling(Node& node, ir::PoolingAttrs attrs) {
  return emit_unary(node, LayerKind::kPooling, std::move(attrs), node.flag("channels_last", false));
}

Status import_global_average_pool(Node& node) {
  ir::PoolingAttrs attrs;
  attrs.type = ir::PoolingType::kAverage;
  attrs.global = true;
  return emit_pooling(node, std::move(attrs));
}

Status import_quantized_average_pool(Node& node) {
  CAMSHAFT_ASSIGN(ir::PoolingAttrs attrs, read_average_pooling(node));
  return emit_pooling(node, std::move(attrs));
}

Status import_quantized_softmax(Node& node) {
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  const bool flattens = node.integer("opset", 13) < 13;
  ir::SoftMaxAttrs attrs;
  CAMSHAFT_ASSIGN(attrs.axis, node.axis(node.integer("axis", -1), rank));
  attrs.last_axis = flattens ? static_cast<int64_t>(rank) - 1 : attrs.axis;
  return emit_unary(node, LayerKind::kSoftMax, attrs);
}

// Inputs: condition, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero.
Status import_quantized_where(Node& node) {
  CAMSHAFT_TRY(node.require(8, 9));
  CAMSHAFT_ASSIGN(Tensor* const x, operand(node, "x", 1));
  CAMSHAFT_ASSIGN(Tensor* const y, operand(node, "y", 4));
  CAMSHAFT_ASSIGN(Tensor* const z,
                  node.add("value", LayerKind::kSelect, ir::PointOpAttrs{PointOp::kSelect},
                           {node.input(0), x, y}));
  return quantize_output(node, z, node.input(7), node.input(8));
}

// Inputs: y_scale, y_zero, then x, scale, zero of every part.
Status import_quantized_concat(Node& node) {
  CAMSHAFT_TRY(node.require(5));
  if (node.input_count() % 3 != 2) return invalid("{} inputs", node.input_count());
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(2));
  ir::AxisAttrs attrs;
  CAMSHAFT_ASSIGN(attrs.axis, node.axis(node.integer("axis", 0), rank));
  std::vector<Tensor*> parts;
  for (size_t k = 2; k < node.input_count(); k += 3) {
    if (!node.has(k) || !node.has(k + 1)) return invalid("input {} is absent", k);
    CAMSHAFT_ASSIGN(Tensor* const part, operand(node, fmt::format("part{}", k / 3), k));
    parts.push_back(part);
  }
  CAMSHAFT_ASSIGN(Tensor* const y, node.add("value", LayerKind::kConcatenation, attrs, parts));
  return quantize_output(node, y, node.input(0), node.input(1));
}

// Inputs: a, a_scale, a_zero, b, b_scale, b_zero, c (int32), y_scale, y_zero; without y_scale the
// result is float.
Status import_quantized_gemm(Node& node) {
  CAMSHAFT_TRY(node.require(5, 9));
  ir::MatrixMultiplyAttrs attrs;
  attrs.transpose_a = node.flag("transA", false);
  attrs.transpose_b = node.flag("transB", false);
  attrs.alpha = node.real("alpha", 1);
  CAMSHAFT_ASSIGN(Tensor* const a, operand(node, "a", 0));
  CAMSHAFT_ASSIGN(Tensor* const b, dequantize(node, "b", node.input(3), node.input(4),
                                              node.input(5), attrs.transpose_b ? 0 : 1));
  std::vector<Tensor*> inputs = {a, b};
  if (node.has(6)) {
    CAMSHAFT_ASSIGN(Tensor* const bias, dequantize_bias(node, node.input(6), node.input(1),
                                                        node.input(4), attrs.alpha));
    inputs.push_back(bias);
  }
  if (!node.has(7))
    return node.emit(LayerKind::kMatrixMultiply, std::move(attrs), std::move(inputs));
  CAMSHAFT_ASSIGN(Tensor* const y, node.add("product", LayerKind::kMatrixMultiply, std::move(attrs),
                                            std::move(inputs)));
  return quantize_output(node, y, node.input(7), node.input(8));
}

Status emit_code_product(Node& node, const CodeProduct& p) {
  CAMSHAFT_ASSIGN(Tensor* const y, code_product(node, p));
  node.give(0, y);
  return ok_status();
}

// Inputs: a, b, a_scale, b_scale, a_zero, b_zero, bias.
Status import_matmul_integer_to_float(Node& node) {
  CAMSHAFT_TRY(node.require(4, 7));
  return emit_code_product(node, {node.input(0), node.input(1), node.input(2), node.input(3),
                                  node.input(4), node.input(5), node.input(6)});
}

// Inputs: a (float), b, b_scale, b_zero, bias.
Status import_dynamic_quantize_matmul(Node& node) {
  CAMSHAFT_TRY(node.require(3, 5));
  CAMSHAFT_ASSIGN(const std::vector<Tensor*> a,
                  apply(node, "DynamicQuantizeLinear", 11, {}, {node.input(0)}, 3, "quantized"));
  return emit_code_product(
      node, {a[0], node.input(1), a[1], node.input(2), a[2], node.input(3), node.input(4)});
}

// As MatMulInteger and what scales its sums: DynamicQuantizationFusion knows that.
Result<Tensor*> scaled_sums(Node& node, const CodeProduct& p) {
  CAMSHAFT_ASSIGN(const std::vector<Tensor*> sums,
                  apply(node, "MatMulInteger", 10, {}, {p.a, p.b, p.a_zero, p.b_zero}, 1, "sums"));
  CAMSHAFT_ASSIGN(Tensor* const floats, node.cast("floats", sums[0], DataType::kFloat));
  CAMSHAFT_ASSIGN(Tensor* const scale, node.binary("scale", PointOp::kMul, p.a_scale, p.b_scale));
  CAMSHAFT_ASSIGN(Tensor* const y, node.binary("scaled", PointOp::kMul, floats, scale));
  return p.bias ? node.binary("biased", PointOp::kAdd, y, p.bias) : y;
}

}  // namespace

// Codes of a scale that only running tells are multiplied as integers at once; of constant scales
// they are Q/DQ as any.
Result<Tensor*> code_product(Node& node, const CodeProduct& p) {
  if (!p.b->has_rank) return unsupported("b of unknown rank");
  if (p.b->shape.empty()) return invalid("b is a scalar");
  const bool is_stored =
      p.b->is_constant() && p.b->shape.size() == 2 && (!p.b_zero || p.b_zero->is_constant());
  if (is_stored && !p.a_scale->is_constant()) return scaled_sums(node, p);
  CAMSHAFT_ASSIGN(Tensor* const a, dequantize(node, "a", p.a, p.a_scale, p.a_zero, 1));
  CAMSHAFT_ASSIGN(Tensor* const b, dequantize(node, "b", p.b, p.b_scale, p.b_zero,
                                              static_cast<int64_t>(p.b->shape.size()) - 1));
  std::vector<Tensor*> inputs = {a, b};
  if (p.bias) inputs.push_back(p.bias);
  return node.add("product", LayerKind::kMatrixMultiply, ir::MatrixMultiplyAttrs{},
                  std::move(inputs));
}

namespace {

constexpr OperatorRow kMicrosoftOperators[] = {
    {"QLinearAdd", import_quantized_binary<PointOp::kAdd>},
    {"QLinearMul", import_quantized_binary<PointOp::kMul>},
    {"QLinearSigmoid", import_sigmoid},
    {"QLinearLeakyRelu", import_leaky_relu},
    {"QLinearSoftmax", import_quantized_softmax},
    {"QLinearAveragePool", import_quantized_average_pool},
    {"QLinearGlobalAveragePool", import_global_average_pool},
    {"QLinearConcat", import_quantized_concat},
    {"QGemm", import_quantized_gemm},
    {"MatMulIntegerToFloat", import_matmul_integer_to_float},
    {"DynamicQuantizeMatMul", import_dynamic_quantize_matmul},
    {"QLinearWhere", import_quantized_where},
};

// The standard operators of that domain that mean the same there.
constexpr std::string_view kShared[] = {"QuantizeLinear", "DequantizeLinear", "QLinearConv",
                                        "QLinearMatMul",  "GridSample",       "Trilu"};

}  // namespace

const OperatorRow* find_microsoft_operator(std::string_view op_type) {
  for (const std::span<const OperatorRow> rows :
       {std::span<const OperatorRow>(kMicrosoftOperators), contrib_operators(), fused_operators(),
        low_bit_operators(), experts_operators(), microsoft_attention_operators(),
        microsoft_recurrence_operators()})
    for (const OperatorRow& row : rows)
      if (row.op_type == op_type) return &row;
  return std::find(std::begin(kShared), std::end(kShared), op_type) != std::end(kShared)
             ? find_operator(op_type)
             : nullptr;
}

}  // namespace camshaft::onnx_import
