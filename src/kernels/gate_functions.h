// SPDX-License-Identifier: Apache-2.0
// The activation functions of a recurrence's gates (ONNX RNN, GRU, LSTM: activations, their alpha
// and beta).
#pragma once

#include "base/status.h"
#include "ir/attrs.h"

namespace camshaft::kernels {

enum class GateOp : uint8_t {
  kRelu,
  kTanh,
  kSigmoid,
  kAffine,
  kLeakyRelu,
  kThresholdedRelu,
  kScaledTanh,
  kHardSigmoid,
  kElu,
  kSoftsign,
  kSoftplus,
};

struct GateFunction {
  GateOp op = GateOp::kTanh;
  double alpha = 0, beta = 0;
};
double evaluate(const GateFunction& function, double value);

// Per direction, in ONNX order: f; f, g of GRU; f, g, h of LSTM.
struct GateFunctions {
  GateFunction of[2][3];
  bool are_default = true;  // sigmoid for f (tanh of RNN), tanh for the others
};
Status read_gate_functions(const ir::RnnAttrs& attrs, int64_t directions, GateFunctions& functions);

}  // namespace camshaft::kernels
