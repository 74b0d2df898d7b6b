// SPDX-License-Identifier: Apache-2.0
// What operators of an ONNX file do to channels, and how their attributes are read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>

#include <onnx/onnx_pb.h>

namespace camshaft::quantize {

inline const ::onnx::AttributeProto* attribute(const ::onnx::NodeProto& node, const char* name) {
  for (const auto& entry : node.attribute())
    if (entry.name() == name) return &entry;
  return nullptr;
}

inline int64_t integer(const ::onnx::NodeProto& node, const char* name, int64_t fallback) {
  const auto* found = attribute(node, name);
  return found != nullptr ? found->i() : fallback;
}

inline bool is_one_of(const std::string& op, std::initializer_list<const char*> ops) {
  return std::any_of(ops.begin(), ops.end(), [&op](const char* name) { return op == name; });
}

inline bool is_unary(const std::string& op) {
  return is_one_of(
      op,
      {"Relu", "LeakyRelu", "Clip",  "Sigmoid",  "HardSigmoid", "HardSwish",  "Tanh",
       "Elu",  "Selu",      "Celu",  "Softplus", "Softsign",    "Gelu",       "Erf",
       "Exp",  "Log",       "Sqrt",  "Neg",      "Abs",         "Identity",   "Dropout",
       "Cast", "Mish",      "Swish", "Floor",    "Round",       "Reciprocal", "ThresholdedRelu"});
}

inline bool is_pooling(const std::string& op) {
  return is_one_of(op, {"MaxPool", "AveragePool", "LpPool"});
}

inline bool is_global_pooling(const std::string& op) {
  return is_one_of(op, {"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"});
}

inline bool is_binary(const std::string& op) {
  return is_one_of(op, {"Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean", "Pow"});
}

inline int64_t count_of(const ::onnx::TensorProto& tensor) {
  int64_t count = 1;
  for (const int64_t dim : tensor.dims()) count *= dim;
  return count;
}

}  // namespace camshaft::quantize
