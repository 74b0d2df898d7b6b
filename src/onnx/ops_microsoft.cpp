// SPDX-License-Identifier: Apache-2.0
// The quantized operators of domain com.microsoft (ONNX Runtime's QOperator form) as Q/DQ around
// float layers, and products with weights of few bits.
#include <algorithm>
#include <cstring>

#include "ir/weight_records.h"
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

Status import_quantized_average_pool(Node& node) {
  CAMSHAFT_TRY(refuse_channels_last(node));
  CAMSHAFT_ASSIGN(ir::PoolingAttrs attrs, read_average_pooling(node));
  return emit_unary(node, LayerKind::kPooling, std::move(attrs));
}

Status import_quantized_softmax(Node& node) {
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  const bool flattens = node.integer("opset", 13) < 13;
  ir::SoftMaxAttrs attrs;
  CAMSHAFT_ASSIGN(attrs.axis, node.axis(node.integer("axis", -1), rank));
  attrs.last_axis = flattens ? static_cast<int64_t>(rank) - 1 : attrs.axis;
  return emit_unary(node, LayerKind::kSoftMax, attrs);
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

// Number k of a row of numbers of `bits` bits, low bits first.
int unpack(std::span<const uint8_t> bytes, int64_t first_byte, int64_t k, int64_t bits) {
  const int64_t bit = k * bits;
  return bytes[first_byte + bit / 8] >> (bit % 8) & ((1 << bits) - 1);
}

bool is_real(DataType type) {
  return type == DataType::kFloat || ir::is_16_bit_float(type);
}

// Codes [N, blocks, bytes], scales and zero points [N, blocks]; integer zero points have as many
// bits as codes, every row of them begins a byte.
struct BitWeights {
  ir::LowBits kind;
  const Tensor *codes, *scales, *zeros;

  ir::RecordLayout layout() const { return ir::RecordLayout(kind); }
  int64_t zero_bytes() const { return (layout().blocks() * kind.bits + 7) / 8; }
  bool has_real_zeros() const { return zeros && is_real(zeros->type); }

  float zero(int64_t row, int64_t b) const {
    if (!zeros) return static_cast<float>(1 << (kind.bits - 1));
    const std::byte* bytes = zeros->constant->view.data();
    if (has_real_zeros())
      return static_cast<float>(read_element(zeros->type, bytes, row * layout().blocks() + b));
    return static_cast<float>(unpack(zeros->values<uint8_t>(), row * zero_bytes(), b, kind.bits));
  }
};

Status check_weights(const BitWeights& w) {
  const ir::LowBits& a = w.kind;
  if (a.bits != 2 && a.bits != 4 && a.bits != 8) return unsupported("weights of {} bits", a.bits);
  if (!ir::RecordLayout::is_valid(a) || a.block < 16)
    return invalid("N {}, K {}, block_size {}", a.columns, a.depth, a.block);
  if (!w.codes->is_constant() || !w.scales->is_constant() || (w.zeros && !w.zeros->is_constant()))
    return unsupported("weights that are no constants");
  if (w.codes->type != DataType::kUInt8 || !is_real(w.scales->type) ||
      (w.zeros && w.zeros->type != DataType::kUInt8 && !is_real(w.zeros->type)))
    return unsupported("weights of these types");
  const int64_t blocks = a.columns * w.layout().blocks();
  const auto has = [](const Tensor* t, int64_t bytes) {
    return static_cast<int64_t>(t->constant->view.size()) == bytes;
  };
  const auto of_reals = [&](const Tensor* t) {
    return static_cast<int64_t>(ir::bytes_for(t->type, blocks));
  };
  const bool fits =
      has(w.codes, blocks * (a.block * a.bits / 8)) && has(w.scales, of_reals(w.scales)) &&
      (!w.zeros ||
       has(w.zeros, w.has_real_zeros() ? of_reals(w.zeros) : a.columns * w.zero_bytes()));
  return fits ? ok_status()
              : invalid("the packed weights do not have the extents N, K and block_size say");
}

std::vector<std::byte> records_of(const BitWeights& w) {
  const ir::RecordLayout layout = w.layout();
  std::vector<std::byte> bytes(static_cast<size_t>(layout.bytes()));
  ir::RecordWriter records(layout, bytes.data());
  const auto codes_bytes = static_cast<size_t>(layout.record() - ir::RecordLayout::kHeader);
  for (int64_t row = 0; row < layout.columns; ++row)
    for (int64_t b = 0; b < layout.blocks(); ++b) {
      const int64_t at = row * layout.blocks() + b;
      const double scale = read_element(w.scales->type, w.scales->constant->view.data(), at);
      records.set_block(row, b, static_cast<float>(scale), w.zero(row, b));
      std::memcpy(bytes.data() + layout.at(row, b) + ir::RecordLayout::kHeader,
                  w.codes->constant->view.data() + static_cast<size_t>(at) * codes_bytes,
                  codes_bytes);
    }
  return bytes;
}

// Whether g_idx only says that every `block` neighbours are a group.
bool is_plain_order(const Tensor* groups, int64_t block) {
  if (!groups->is_constant() || groups->type != DataType::kInt32) return false;
  const auto group = groups->values<int32_t>();
  for (size_t k = 0; k < group.size(); ++k)
    if (group[k] != static_cast<int64_t>(k) / block) return false;
  return true;
}

// Inputs: a, packed b [N, blocks, bytes], scales, zero points, group index, bias.
Status import_matmul_bits(Node& node) {
  CAMSHAFT_TRY(node.require(3, 6));
  BitWeights w{{}, node.input(1), node.input(2), node.input(3)};
  w.kind.columns = node.integer("N", 0);
  w.kind.depth = node.integer("K", 0);
  w.kind.bits = node.integer("bits", 4);
  w.kind.block = node.integer("block_size", 32);
  w.kind.codes_rows = node.integer("accuracy_level", 0) >= 4;
  if (w.zeros) w.kind.zero = is_real(w.zeros->type) ? DataType::kFloat : DataType::kUInt8;
  if (node.has(4) && !is_plain_order(node.input(4), w.kind.block))
    return unsupported("g_idx: groups of weights that are not neighbours");
  CAMSHAFT_TRY(check_weights(w));
  const ir::RecordLayout layout = w.layout();
  const int64_t extents[] = {layout.columns, layout.blocks(), layout.record()};
  std::vector<Tensor*> inputs = {
      node.input(0), node.constant("records", DataType::kUInt8, extents, records_of(w))};
  const DataType type = node.input(0)->type;
  if (node.has(5)) inputs.push_back(node.input(5));
  if (type == DataType::kFloat)
    return node.emit(LayerKind::kLowBitMultiply, w.kind, std::move(inputs));
  // Rows of 16 bits: the product is of floats.
  for (size_t k : {size_t{0}, size_t{2}})
    if (k < inputs.size() && inputs[k]->type != DataType::kFloat) {
      CAMSHAFT_ASSIGN(inputs[k], node.cast(k == 0 ? "rows" : "bias", inputs[k], DataType::kFloat));
    }
  CAMSHAFT_ASSIGN(Tensor* const y,
                  node.add("product", LayerKind::kLowBitMultiply, w.kind, std::move(inputs)));
  return node.emit(LayerKind::kCast, ir::CastAttrs{type}, {y});
}

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
    {"MatMulNBits", import_matmul_bits},
};

// The standard operators of that domain that mean the same there.
constexpr std::string_view kShared[] = {"QuantizeLinear", "DequantizeLinear", "QLinearConv",
                                        "QLinearMatMul"};

}  // namespace

const OperatorRow* find_microsoft_operator(std::string_view op_type) {
  for (const std::span<const OperatorRow> rows :
       {std::span<const OperatorRow>(kMicrosoftOperators), contrib_operators(),
        microsoft_attention_operators(), microsoft_recurrence_operators()})
    for (const OperatorRow& row : rows)
      if (row.op_type == op_type) return &row;
  return std::find(std::begin(kShared), std::end(kShared), op_type) != std::end(kShared)
             ? find_operator(op_type)
             : nullptr;
}

}  // namespace camshaft::onnx_import
