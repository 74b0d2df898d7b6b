// SPDX-License-Identifier: Apache-2.0
// What ONNX Runtime's own optimizer writes when it saves a model (domain com.microsoft): standard
// operators with an activation, a sum or transposes taken in, as the operators they were made of.
#include "onnx/ops_contrib.h"
#include "onnx/ops_quantized.h"

namespace camshaft::onnx_import {
namespace {

// The node's attributes for the standard operator it is made of: not those of its activation.
std::vector<AttributeDef> standard_attributes(Node& node) {
  std::vector<AttributeDef> attributes;
  for (const AttributeDef& attribute : node.def().attributes) {
    if (attribute.name.starts_with("activation")) continue;
    node.ignore({attribute.name});
    attributes.push_back(attribute);
  }
  return attributes;
}

AttributeDef real(std::string_view name, float value) {
  AttributeDef attribute;
  attribute.name = name;
  attribute.type = AttributeType::kFloat;
  attribute.f = value;
  return attribute;
}

// --- activations

struct Activation {
  std::string_view op;
  std::vector<std::string_view> parameters = {};  // in the order of activation_params
};

const Activation* find_activation(std::string_view op) {
  static const Activation kActivations[] = {
      {"Relu"},
      {"Sigmoid"},
      {"Tanh"},
      {"Softplus"},
      {"Softsign"},
      {"LeakyRelu", {"alpha"}},
      {"Elu", {"alpha"}},
      {"ThresholdedRelu", {"alpha"}},
      {"Clip", {"min", "max"}},
      {"HardSigmoid", {"alpha", "beta"}},
      {"Selu", {"alpha", "gamma"}},
  };
  for (const Activation& activation : kActivations)
    if (activation.op == op) return &activation;
  return nullptr;
}

// activation_params of FusedConv; activation_alpha and the like of FusedGemm.
Result<std::vector<AttributeDef>> parameters_of(Node& node, const Activation& activation) {
  const std::vector<float> list = node.floats("activation_params");
  std::vector<AttributeDef> attributes;
  if (!list.empty() && list.size() < activation.parameters.size())
    return invalid("{} activation_params for {}", list.size(), activation.op);
  for (size_t k = 0; k < activation.parameters.size(); ++k) {
    const std::string_view name = activation.parameters[k];
    const std::string own = fmt::format("activation_{}", name);
    if (!list.empty())
      attributes.push_back(real(name, list[k]));
    else if (node.has_attribute(own))
      attributes.push_back(real(name, node.real(own, 0)));
  }
  return attributes;
}

// Output 0 is the activation of y, if the node has one.
Status give_activated(Node& node, Tensor* y) {
  constexpr int64_t kOpsetOfLimits = 6;  // where Clip's limits are attributes
  const std::string op = node.text("activation", "");
  if (op.empty()) {
    node.give(0, y);
    return ok_status();
  }
  const Activation* activation = find_activation(op);
  if (!activation) return unsupported("activation {}", op);
  node.ignore({"activation_alpha", "activation_beta", "activation_gamma"});  // zeros, where unused
  CAMSHAFT_ASSIGN(std::vector<AttributeDef> attributes, parameters_of(node, *activation));
  CAMSHAFT_ASSIGN(const std::vector<Tensor*> result,
                  apply(node, op, kOpsetOfLimits, std::move(attributes), {y}, 1, "activation"));
  node.give(0, result[0]);
  return ok_status();
}

// --- products and convolutions

// Inputs: x, w, bias, what is added before the activation.
Status import_fused_conv(Node& node) {
  CAMSHAFT_TRY(node.require(2, 4));
  CAMSHAFT_ASSIGN(const std::vector<Tensor*> conv,
                  apply(node, "Conv", node.opset(), standard_attributes(node),
                        {node.input(0), node.input(1), node.input(2)}, 1, "convolution"));
  Tensor* y = conv[0];
  if (node.has(3)) {
    CAMSHAFT_ASSIGN(y, node.binary("sum", PointOp::kAdd, y, node.input(3)));
  }
  return give_activated(node, y);
}

Status import_fused_gemm(Node& node) {
  CAMSHAFT_TRY(node.require(2, 3));
  CAMSHAFT_ASSIGN(
      const std::vector<Tensor*> gemm,
      apply(node, "Gemm", node.opset(), standard_attributes(node), node.inputs(), 1, "product"));
  return give_activated(node, gemm[0]);
}

// [M, batch …, K] → [batch …, M, K]
Result<Tensor*> batch_first(Node& node, std::string_view step, Tensor* x, size_t rank) {
  if (rank < 3) return invalid("{}: an operand of rank {} has no batch", step, rank);
  Ints order;
  for (size_t d = 1; d + 1 < rank; ++d) order.push_back(static_cast<int64_t>(d));
  order.push_back(0);
  order.push_back(static_cast<int64_t>(rank) - 1);
  return node.transpose(step, x, std::move(order));
}

Status import_fused_matmul(Node& node) {  // TransposeMatMul, too
  CAMSHAFT_TRY(node.require(2, 2));
  ir::MatrixMultiplyAttrs attrs;
  attrs.transpose_a = node.flag("transA", false);
  attrs.transpose_b = node.flag("transB", false);
  attrs.alpha = node.real("alpha", 1);
  std::vector<Tensor*> inputs = node.inputs();
  constexpr const char* kBatch[] = {"transBatchA", "transBatchB"};
  for (size_t k = 0; k < 2; ++k) {
    bool& transposes = k == 0 ? attrs.transpose_a : attrs.transpose_b;
    const bool moves_batch = node.flag(kBatch[k], false);
    if (!transposes && !moves_batch) continue;
    CAMSHAFT_ASSIGN(const size_t rank, node.rank(k));
    if (rank < 2) transposes = false;
    if (moves_batch) {
      CAMSHAFT_ASSIGN(inputs[k], batch_first(node, kBatch[k], inputs[k], rank));
    }
  }
  return emit_product(node, std::move(attrs), std::move(inputs));
}

// --- what is not standard but for its layout

Status import_channel_last_max_pool(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  CAMSHAFT_ASSIGN(Tensor* const x, channels_first(node, node.input(0)));
  CAMSHAFT_ASSIGN(
      const std::vector<Tensor*> pooled,
      apply(node, "MaxPool", node.opset(), standard_attributes(node), {x}, 1, "pooling"));
  CAMSHAFT_ASSIGN(Tensor* const y, channels_last(node, pooled[0]));
  node.give(0, y);
  return ok_status();
}

}  // namespace

std::span<const OperatorRow> fused_operators() {
  static constexpr OperatorRow kOperators[] = {
      {"FusedConv", import_fused_conv},
      {"FusedGemm", import_fused_gemm},
      {"FusedMatMul", import_fused_matmul},
      {"TransposeMatMul", import_fused_matmul},
      {"NhwcMaxPool", import_channel_last_max_pool},
  };
  return kOperators;
}

}  // namespace camshaft::onnx_import
