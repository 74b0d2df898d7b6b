// SPDX-License-Identifier: Apache-2.0
// Matrix products and softmax.
#include "ir/extents.h"
#include "onnx/node.h"

namespace camshaft::onnx_import {
namespace {

Status import_matmul(Node& node) {
  CAMSHAFT_TRY(node.require(2, 2));
  return emit_product(node, {}, node.inputs());
}

// The bias with beta folded in; null: there is none.
Result<Tensor*> scaled_bias(Node& node, float beta) {
  Tensor* bias = node.input(2);
  if (bias == nullptr || beta == 0) return nullptr;
  if (beta == 1) return bias;
  if (bias->is_constant() && bias->type == DataType::kFloat) {
    std::vector<float> scaled;
    for (float value : bias->values<float>()) scaled.push_back(beta * value);
    return node.float_constant("bias", ir::extents_of(bias->shape), scaled);
  }
  return node.binary("bias", PointOp::kMul, bias, node.scalar_like("beta", bias->type, beta));
}

Status import_gemm(Node& node) {
  CAMSHAFT_TRY(node.require(2, 3));
  ir::MatrixMultiplyAttrs attrs;
  attrs.transpose_a = node.flag("transA", false);
  attrs.transpose_b = node.flag("transB", false);
  attrs.alpha = node.real("alpha", 1);
  node.ignore({"broadcast"});
  for (size_t k = 0; k < 2; ++k)
    if (node.input(k)->has_rank && node.input(k)->shape.size() != 2)
      return invalid("input {} is not a matrix", k);
  CAMSHAFT_ASSIGN(Tensor* const bias, scaled_bias(node, node.real("beta", 1)));
  std::vector<Tensor*> inputs = {node.input(0), node.input(1)};
  if (bias != nullptr) inputs.push_back(bias);
  return node.emit(LayerKind::kMatrixMultiply, std::move(attrs), std::move(inputs));
}

enum class SoftmaxKind { kPlain, kLog, kHard };

template <SoftmaxKind kind>
Status import_softmax(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  const bool flattens = node.opset() < 13;
  ir::SoftMaxAttrs attrs;
  attrs.log = kind == SoftmaxKind::kLog;
  attrs.hard = kind == SoftmaxKind::kHard;
  const int64_t given = node.integer("axis", flattens ? 1 : -1);
  if (flattens && given == static_cast<int64_t>(rank))
    return unsupported("axis {} of a tensor of rank {}", given, rank);
  CAMSHAFT_ASSIGN(attrs.axis, node.axis(given, rank));
  attrs.last_axis = flattens ? static_cast<int64_t>(rank) - 1 : attrs.axis;
  return node.emit(LayerKind::kSoftMax, attrs, node.inputs());
}

}  // namespace

Status emit_product(Node& node, ir::MatrixMultiplyAttrs attrs, std::vector<Tensor*> factors) {
  const auto is_vector = [](const Tensor* x) { return x->has_rank && x->shape.size() == 1; };
  const bool of_row = is_vector(factors[0]), of_column = is_vector(factors[1]);
  if (!(of_row || of_column) || !factors[0]->has_rank || !factors[1]->has_rank)
    return node.emit(LayerKind::kMatrixMultiply, std::move(attrs), std::move(factors));
  if (of_row) {
    CAMSHAFT_ASSIGN(factors[0], node.reshape("row", factors[0], {Dim(1), factors[0]->shape[0]}));
  }
  if (of_column) {
    CAMSHAFT_ASSIGN(factors[1], node.reshape("column", factors[1], {factors[1]->shape[0], Dim(1)}));
  }
  CAMSHAFT_ASSIGN(Tensor* const product, node.add("product", LayerKind::kMatrixMultiply,
                                                  std::move(attrs), std::move(factors)));
  ir::ShuffleAttrs vector;
  vector.has_reshape = true;
  vector.reshape = product->shape;
  if (of_column) vector.reshape.pop_back();
  if (of_row) vector.reshape.erase(vector.reshape.size() - (of_column ? 1 : 2));
  return node.emit(LayerKind::kShuffle, std::move(vector), {product});
}

std::span<const OperatorRow> matrix_operators() {
  static constexpr OperatorRow kOperators[] = {
      {"MatMul", import_matmul},
      {"Gemm", import_gemm},
      {"Softmax", import_softmax<SoftmaxKind::kPlain>},
      {"LogSoftmax", import_softmax<SoftmaxKind::kLog>},
      {"Hardmax", import_softmax<SoftmaxKind::kHard>},
  };
  return kOperators;
}

}  // namespace camshaft::onnx_import
