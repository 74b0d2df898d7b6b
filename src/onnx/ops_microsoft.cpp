// SPDX-License-Identifier: Apache-2.0
// The quantized operators of domain com.microsoft (ONNX Runtime's QOperator form) as Q/DQ around
// float layers; weights of few bits become float constants.
#include <algorithm>
#include <cstring>

#include "onnx/ops_quantized.h"

namespace camshaft::onnx_import {
namespace {

// Input k, its scale and its zero point, which follow it.
Result<Tensor*> operand(Node& node, std::string_view step, size_t k) {
  return dequantize(node, step, node.input(k), node.input(k + 1), node.input(k + 2), 1);
}

// Inputs: a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero.
template <PointOp op>
Status import_binary(Node& node) {
  CAMSHAFT_TRY(node.require(7, 8));
  CAMSHAFT_ASSIGN(Tensor* const a, operand(node, "a", 0));
  CAMSHAFT_ASSIGN(Tensor* const b, operand(node, "b", 3));
  CAMSHAFT_ASSIGN(Tensor* const y, node.binary("value", op, a, b));
  return quantize_output(node, y, node.input(6), node.input(7));
}

// Inputs of the unary ones: x, x_scale, x_zero, y_scale, y_zero.
Status emit_unary(Node& node, LayerKind kind, Attrs attrs) {
  CAMSHAFT_TRY(node.require(4, 5));
  CAMSHAFT_ASSIGN(Tensor* const x, operand(node, "x", 0));
  CAMSHAFT_ASSIGN(Tensor* const y, node.add("value", kind, std::move(attrs), {x}));
  return quantize_output(node, y, node.input(3), node.input(4));
}

Status import_sigmoid(Node& node) {
  return emit_unary(node, LayerKind::kActivation, ir::PointOpAttrs{PointOp::kSigmoid});
}

Status import_leaky_relu(Node& node) {
  return emit_unary(node, LayerKind::kActivation,
                    ir::PointOpAttrs{PointOp::kLeakyRelu, node.real("alpha", 0.01f)});
}

Status refuse_channels_last(Node& node) {
  return node.flag("channels_last", false) ? unsupported("channels_last") : ok_status();
}

Status import_global_average_pool(Node& node) {
  CAMSHAFT_TRY(refuse_channels_last(node));
  ir::PoolingAttrs attrs;
  attrs.type = ir::PoolingType::kAverage;
  attrs.global = true;
  return emit_unary(node, LayerKind::kPooling, std::move(attrs));
}

Status import_average_pool(Node& node) {
  CAMSHAFT_TRY(refuse_channels_last(node));
  CAMSHAFT_ASSIGN(ir::PoolingAttrs attrs, read_average_pooling(node));
  return emit_unary(node, LayerKind::kPooling, std::move(attrs));
}

Status import_softmax(Node& node) {
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  const bool flattens = node.integer("opset", 13) < 13;
  ir::SoftMaxAttrs attrs;
  CAMSHAFT_ASSIGN(attrs.axis, node.axis(node.integer("axis", -1), rank));
  attrs.last_axis = flattens ? static_cast<int64_t>(rank) - 1 : attrs.axis;
  return emit_unary(node, LayerKind::kSoftMax, attrs);
}

// Inputs: y_scale, y_zero, then x, scale, zero of every part.
Status import_concat(Node& node) {
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
Status import_gemm(Node& node) {
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

// Inputs: a, b, a_scale, b_scale, a_zero, b_zero, bias (float).
Status import_matmul_integer_to_float(Node& node) {
  CAMSHAFT_TRY(node.require(4, 7));
  CAMSHAFT_ASSIGN(const size_t b_rank, node.rank(1));
  if (b_rank < 1) return invalid("b is a scalar");
  CAMSHAFT_ASSIGN(Tensor* const a,
                  dequantize(node, "a", node.input(0), node.input(2), node.input(4), 1));
  CAMSHAFT_ASSIGN(Tensor* const b, dequantize(node, "b", node.input(1), node.input(3),
                                              node.input(5), static_cast<int64_t>(b_rank) - 1));
  std::vector<Tensor*> inputs = {a, b};
  if (node.has(6)) inputs.push_back(node.input(6));
  return node.emit(LayerKind::kMatrixMultiply, ir::MatrixMultiplyAttrs{}, std::move(inputs));
}

// --- weights of few bits

struct PackedWeights {
  int64_t rows = 0, columns = 0, bits = 4, block = 32;  // of B^T: N rows of K
  int64_t blocks() const { return (columns + block - 1) / block; }
  int64_t block_bytes() const { return block * bits / 8; }
  int64_t zero_bytes() const { return (blocks() * bits + 7) / 8; }
};

// Number k of a row of numbers of `bits` bits, low bits first.
int unpack(std::span<const uint8_t> bytes, int64_t first_byte, int64_t k, int64_t bits) {
  const int64_t bit = k * bits;
  return bytes[first_byte + bit / 8] >> (bit % 8) & ((1 << bits) - 1);
}

Status check_packed(Node& node, const PackedWeights& w) {
  if (w.bits != 2 && w.bits != 4 && w.bits != 8) return unsupported("weights of {} bits", w.bits);
  if (w.rows <= 0 || w.columns <= 0 || w.block < 16 || w.rows > (1 << 24) ||
      w.columns > (1 << 24) || w.block > (1 << 20))
    return invalid("N {}, K {}, block_size {}", w.rows, w.columns, w.block);
  const Tensor *codes = node.input(1), *scales = node.input(2), *zeros = node.input(3);
  if (!codes->is_constant() || !scales->is_constant() || (zeros && !zeros->is_constant()))
    return unsupported("weights that are no constants");
  if (codes->type != DataType::kUInt8 || scales->type != DataType::kFloat ||
      (zeros && zeros->type != DataType::kUInt8 && zeros->type != DataType::kFloat))
    return unsupported("weights of these types");
  const auto bytes_of = [](const Tensor* t) {
    return static_cast<int64_t>(t->constant->view.size());
  };
  const bool fits =
      bytes_of(codes) == w.rows * w.blocks() * w.block_bytes() &&
      bytes_of(scales) == w.rows * w.blocks() * 4 &&
      (!zeros || bytes_of(zeros) ==
                     w.rows * (zeros->type == DataType::kFloat ? w.blocks() * 4 : w.zero_bytes()));
  return fits ? ok_status()
              : invalid("the packed weights do not have the extents N, K and block_size say");
}

std::vector<float> unpacked(const Node& node, const PackedWeights& w) {
  const auto codes = node.input(1)->values<uint8_t>();
  const auto scales = node.input(2)->values<float>();
  const Tensor* zeros = node.input(3);
  std::vector<float> values(static_cast<size_t>(w.rows * w.columns));
  for (int64_t row = 0; row < w.rows; ++row)
    for (int64_t block = 0; block < w.blocks(); ++block) {
      const int64_t at = row * w.blocks() + block;
      float zero = static_cast<float>(1 << (w.bits - 1));
      if (zeros && zeros->type == DataType::kFloat) zero = zeros->values<float>()[at];
      if (zeros && zeros->type == DataType::kUInt8)
        zero = static_cast<float>(
            unpack(zeros->values<uint8_t>(), row * w.zero_bytes(), block, w.bits));
      for (int64_t k = block * w.block; k < std::min((block + 1) * w.block, w.columns); ++k) {
        const int code = unpack(codes, at * w.block_bytes(), k - block * w.block, w.bits);
        values[row * w.columns + k] = (static_cast<float>(code) - zero) * scales[at];
      }
    }
  return values;
}

// Inputs: a, packed b [N, blocks, bytes], scales, zero points, group index, bias.
Status import_matmul_bits(Node& node) {
  CAMSHAFT_TRY(node.require(3, 6));
  node.ignore({"accuracy_level"});
  if (node.has(4)) return unsupported("g_idx");
  PackedWeights w;
  w.rows = node.integer("N", 0);
  w.columns = node.integer("K", 0);
  w.bits = node.integer("bits", 4);
  w.block = node.integer("block_size", 32);
  CAMSHAFT_TRY(check_packed(node, w));
  const int64_t extents[] = {w.rows, w.columns};
  ir::MatrixMultiplyAttrs attrs;
  attrs.transpose_b = true;
  std::vector<Tensor*> inputs = {node.input(0),
                                 node.float_constant("weights", extents, unpacked(node, w))};
  if (node.has(5)) inputs.push_back(node.input(5));
  return node.emit(LayerKind::kMatrixMultiply, std::move(attrs), std::move(inputs));
}

constexpr OperatorRow kOperators[] = {
    {"QLinearAdd", import_binary<PointOp::kAdd>},
    {"QLinearMul", import_binary<PointOp::kMul>},
    {"QLinearSigmoid", import_sigmoid},
    {"QLinearLeakyRelu", import_leaky_relu},
    {"QLinearSoftmax", import_softmax},
    {"QLinearAveragePool", import_average_pool},
    {"QLinearGlobalAveragePool", import_global_average_pool},
    {"QLinearConcat", import_concat},
    {"QGemm", import_gemm},
    {"MatMulIntegerToFloat", import_matmul_integer_to_float},
    {"MatMulNBits", import_matmul_bits},
};

// The standard operators of that domain that mean the same there.
constexpr std::string_view kShared[] = {"QuantizeLinear", "DequantizeLinear", "QLinearConv",
                                        "QLinearMatMul"};

}  // namespace

const OperatorRow* find_microsoft_operator(std::string_view op_type) {
  for (const OperatorRow& row : kOperators)
    if (row.op_type == op_type) return &row;
  return std::find(std::begin(kShared), std::end(kShared), op_type) != std::end(kShared)
             ? find_operator(op_type)
             : nullptr;
}

}  // namespace camshaft::onnx_import
