// SPDX-License-Identifier: Apache-2.0
#include "kernels/gate_functions.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string_view>

namespace camshaft::kernels {
namespace {

struct GateFunctionRow {
  std::string_view name;
  GateOp op;
  int parameters;  // how many of alpha, beta it takes
  double alpha, beta;
};
constexpr GateFunctionRow kFunctions[] = {
    {"relu", GateOp::kRelu, 0, 0, 0},
    {"tanh", GateOp::kTanh, 0, 0, 0},
    {"sigmoid", GateOp::kSigmoid, 0, 0, 0},
    {"affine", GateOp::kAffine, 2, 1, 0},
    {"leakyrelu", GateOp::kLeakyRelu, 1, 0.01, 0},
    {"thresholdedrelu", GateOp::kThresholdedRelu, 1, 1, 0},
    {"scaledtanh", GateOp::kScaledTanh, 2, 1, 1},
    {"hardsigmoid", GateOp::kHardSigmoid, 2, 0.2, 0.5},
    {"elu", GateOp::kElu, 1, 1, 0},
    {"softsign", GateOp::kSoftsign, 0, 0, 0},
    {"softplus", GateOp::kSoftplus, 0, 0, 0},
};

const GateFunctionRow* find_function(std::string name) {
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const GateFunctionRow& row : kFunctions)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace

double evaluate(const GateFunction& function, double v) {
  const double a = function.alpha, b = function.beta;
  switch (function.op) {
    case GateOp::kRelu:
      return std::max(v, 0.0);
    case GateOp::kTanh:
      return std::tanh(v);
    case GateOp::kSigmoid:
      return 1 / (1 + std::exp(-v));
    case GateOp::kAffine:
      return a * v + b;
    case GateOp::kLeakyRelu:
      return v >= 0 ? v : a * v;
    case GateOp::kThresholdedRelu:
      return v >= a ? v : 0;
    case GateOp::kScaledTanh:
      return a * std::tanh(b * v);
    case GateOp::kHardSigmoid:
      return std::clamp(a * v + b, 0.0, 1.0);
    case GateOp::kElu:
      return v >= 0 ? v : a * std::expm1(v);
    case GateOp::kSoftsign:
      return v / (1 + std::abs(v));
    case GateOp::kSoftplus:
      return std::log1p(std::exp(-std::abs(v))) + std::max(v, 0.0);
  }
  return v;
}

// alpha and beta are handed out in order to the functions that take them.
Status read_gate_functions(const ir::RnnAttrs& attrs, int64_t directions,
                           GateFunctions& functions) {
  const size_t count = attrs.kind == ir::RnnKind::kLstm  ? 3
                       : attrs.kind == ir::RnnKind::kGru ? 2
                                                         : 1,
               wanted = count * static_cast<size_t>(directions);
  if (!attrs.activations.empty() && attrs.activations.size() != wanted)
    return make_error(ErrorCode::kInvalidModel, "{} activations, {} are wanted",
                      attrs.activations.size(), wanted);
  size_t alphas = 0, betas = 0;
  for (size_t k = 0; k < wanted; ++k) {
    const size_t gate = k % count;
    GateFunction& function = functions.of[k / count][gate];
    const GateOp usual = count > 1 && gate == 0 ? GateOp::kSigmoid : GateOp::kTanh;
    function = {usual, 0, 0};
    if (attrs.activations.empty()) continue;
    const GateFunctionRow* row = find_function(attrs.activations[k]);
    if (row == nullptr)
      return make_error(ErrorCode::kUnsupported, "activation {} in a recurrent layer",
                        attrs.activations[k]);
    function = {row->op, row->alpha, row->beta};
    if (row->parameters > 0 && alphas < attrs.activation_alpha.size())
      function.alpha = attrs.activation_alpha[alphas++];
    if (row->parameters > 1 && betas < attrs.activation_beta.size())
      function.beta = attrs.activation_beta[betas++];
    functions.are_default = functions.are_default && row->op == usual;
  }
  return ok_status();
}

}  // namespace camshaft::kernels
