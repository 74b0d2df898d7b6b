// SPDX-License-Identifier: Apache-2.0
// Optimized layers of codes against what the graph as imported computes for the same operands, in
// steps.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/interpreter.h"

namespace camshaft {

struct OriginalTensors {
  std::map<std::string, kernels::Value> values;
  std::map<std::string, int32_t> zero_points;  // of int8 codes, where not 0
};

// The outputs of `graph`, and every tensor on the way.
inline Result<std::vector<kernels::Value>> evaluate_all(const ir::Graph& graph,
                                                        const std::vector<kernels::Value>& inputs,
                                                        OriginalTensors& original) {
  kernels::EvaluateOptions options;
  options.observer = [&](const ir::Layer& layer, std::span<const kernels::Value* const> outputs) {
    for (size_t k = 0; k < outputs.size(); ++k)
      if (outputs[k] && layer.outputs[k]) original.values[layer.outputs[k]->name] = *outputs[k];
    if (layer.kind == ir::LayerKind::kQuantize && layer.inputs.size() > 2 && layer.inputs[2] &&
        layer.inputs[2]->is_constant() && layer.inputs[2]->type == ir::DataType::kInt8)
      original.zero_points[layer.outputs[0]->name] = layer.inputs[2]->values<int8_t>()[0];
  };
  for (size_t k = 0; k < inputs.size(); ++k) original.values[graph.inputs()[k]->name] = inputs[k];
  return kernels::evaluate(graph, inputs, options);
}

// `tensor` of the optimized graph as the original graph computed it: codes may have moved.
inline std::optional<kernels::Value> original_value(const OriginalTensors& original,
                                                    const ir::Tensor& tensor) {
  if (tensor.is_constant()) return kernels::constant_value(tensor);
  const auto at = original.values.find(tensor.name);
  if (at == original.values.end()) return std::nullopt;
  const kernels::Value& value = at->second;
  for (size_t d = 0; d < tensor.shape.size(); ++d)  // TransposeMotion keeps names
    if (value.extents.size() != tensor.shape.size() ||
        (tensor.shape[d].is_known() && tensor.shape[d].extent() != value.extents[d]))
      return std::nullopt;
  if (value.type == tensor.type) return value;
  if (value.type != ir::DataType::kInt8 || tensor.type != ir::DataType::kUInt8) return std::nullopt;
  const int shift = tensor.facts.zero_point.empty() ? 128 : tensor.facts.zero_point[0];
  const auto own = original.zero_points.find(tensor.name);
  const int moved = shift - (own == original.zero_points.end() ? 0 : own->second);
  std::vector<std::byte> bytes;
  for (double code : value.to_doubles())
    bytes.push_back(static_cast<std::byte>(static_cast<uint8_t>(static_cast<int>(code) + moved)));
  return kernels::make_value(tensor.type, value.extents, std::move(bytes)).value();
}

struct LayerSteps {
  double most = 0;  // largest difference of two codes
  size_t differing = 0, elements = 0;
};

// Empty: the layer makes no codes, or the original graph does not have all its operands.
inline std::optional<LayerSteps> layer_steps(const ir::Layer& layer,
                                             const OriginalTensors& original) {
  if (layer.outputs.size() != 1 || !ir::is_quantized(layer.outputs[0]->type)) return std::nullopt;
  const std::optional<kernels::Value> wanted = original_value(original, *layer.outputs[0]);
  if (!wanted) return std::nullopt;
  std::vector<std::optional<kernels::Value>> values;
  std::vector<const kernels::Value*> inputs;
  for (const ir::Tensor* input : layer.inputs) {
    values.push_back(input ? original_value(original, *input) : std::nullopt);
    if (input && !values.back()) return std::nullopt;
  }
  for (const auto& value : values) inputs.push_back(value ? &*value : nullptr);
  const auto found = kernels::evaluate_layer(layer, inputs);
  if (!found.ok()) return std::nullopt;
  const std::vector<double> a = found.value()[0].to_doubles(), b = wanted->to_doubles();
  if (a.size() != b.size()) return LayerSteps{HUGE_VAL, a.size(), a.size()};
  LayerSteps steps;
  steps.elements = a.size();
  for (size_t k = 0; k < a.size(); ++k) {
    steps.most = std::max(steps.most, std::abs(a[k] - b[k]));
    steps.differing += a[k] != b[k];
  }
  return steps;
}

}  // namespace camshaft
