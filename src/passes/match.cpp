// SPDX-License-Identifier: Apache-2.0
#include "passes/match.h"

#include <algorithm>

namespace camshaft::passes {

using namespace ir;

Tensor* input_at(const Layer& layer, size_t k) {
  return k < layer.inputs.size() ? layer.inputs[k] : nullptr;
}

Layer* only_reader(const Tensor* tensor) {
  if (!tensor || tensor->consumers.empty() || tensor->graph->is_output(tensor)) return nullptr;
  Layer* first = tensor->consumers[0];
  const bool alone = std::all_of(tensor->consumers.begin(), tensor->consumers.end(),
                                 [&](const Layer* l) { return l == first; });
  return alone ? first : nullptr;
}

Layer* producer_of_kind(const Tensor* tensor, LayerKind kind) {
  return tensor && tensor->producer && tensor->producer->kind == kind ? tensor->producer : nullptr;
}

bool is_product(const Layer& layer) {
  return layer.kind == LayerKind::kConvolution || layer.kind == LayerKind::kDeconvolution ||
         layer.kind == LayerKind::kMatrixMultiply;
}

bool makes_codes(const Layer& layer) {
  return is_product(layer) && is_quantized(layer.inputs[0]->type);
}

bool is_float_constant(const Tensor* tensor) {
  return tensor && tensor->is_constant() && tensor->type == DataType::kFloat;
}

std::optional<float> scalar_value(const Tensor* tensor) {
  if (!is_float_constant(tensor) || tensor->values<float>().size() != 1) return std::nullopt;
  return tensor->values<float>()[0];
}

bool all_known(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](Dim dim) { return dim.is_known(); });
}

Extents extents_of(const Shape& shape) {
  Extents extents;
  for (Dim dim : shape) extents.push_back(dim.extent());
  return extents;
}

SliceAttrs slice_along(const Shape& shape, size_t axis, int64_t first) {
  SliceAttrs attrs;
  attrs.size = shape;
  attrs.start = Shape(shape.size(), Dim(0));
  attrs.start[axis] = first;
  attrs.step = Ints(shape.size(), 1);
  return attrs;
}

bool is_identity_order(const Ints& order) {
  for (size_t k = 0; k < order.size(); ++k)
    if (order[k] != static_cast<int64_t>(k)) return false;
  return true;
}

std::optional<Ints> unit_reshape(const Shape& from, const Shape& to) {
  Ints source;
  size_t at = 0;
  for (Dim extent : to) {
    while (at < from.size() && from[at] == Dim(1) && extent != Dim(1)) ++at;
    const bool match = at < from.size() && from[at] == extent;
    if (!match && extent != Dim(1)) return std::nullopt;
    source.push_back(match ? static_cast<int64_t>(at++) : -1);
  }
  for (; at < from.size(); ++at)
    if (from[at] != Dim(1)) return std::nullopt;
  return source;
}

void sort_by_position(std::vector<Layer*>& layers) {
  if (layers.empty()) return;
  const Graph& graph = *layers[0]->outputs[0]->graph;
  std::sort(layers.begin(), layers.end(),
            [&](const Layer* a, const Layer* b) { return graph.position(a) < graph.position(b); });
}

std::vector<float> values_along(const Tensor* tensor, const Shape& shape, size_t axis,
                                int64_t extent) {
  if (!is_float_constant(tensor) || tensor->shape.size() > shape.size()) return {};
  const std::span<const float> values = tensor->values<float>();
  if (values.size() == 1) return std::vector<float>(static_cast<size_t>(extent), values[0]);
  const size_t missing = shape.size() - tensor->shape.size();
  for (size_t k = 0; k < tensor->shape.size(); ++k)
    if (tensor->shape[k] != Dim(k + missing == axis ? extent : 1)) return {};
  return {values.begin(), values.end()};
}

}  // namespace camshaft::passes
