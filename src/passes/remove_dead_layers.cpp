// SPDX-License-Identifier: Apache-2.0
// Dead-layer removal: a layer none of whose outputs reaches a network output goes. Bit exact.
#include <algorithm>

#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

bool is_used(const Graph& graph, const Tensor* tensor) {
  return tensor && (!tensor->consumers.empty() || graph.is_output(tensor));
}

// Outputs that ONNX leaves optional and kernels can skip.
bool has_optional_outputs(LayerKind kind) {
  return kind == LayerKind::kPooling || kind == LayerKind::kRecurrence;
}

}  // namespace

int remove_dead_layers(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "DeadLayerRemoval", records);
  std::vector<Layer*> layers;
  for (const auto& layer : graph.layers()) layers.push_back(layer.get());
  // From the back, so that a chain goes in one sweep.
  for (auto at = layers.rbegin(); at != layers.rend(); ++at) {
    Layer* layer = *at;
    const auto used = [&](const Tensor* tensor) { return is_used(graph, tensor); };
    if (std::none_of(layer->outputs.begin(), layer->outputs.end(), used)) {
      rewriter.applied(*layer, "Removing " + layer->name);
      rewriter.remove(layer);
    } else if (has_optional_outputs(layer->kind)) {
      for (size_t k = 1; k < layer->outputs.size(); ++k)
        if (layer->outputs[k] && !used(layer->outputs[k])) rewriter.drop_output(layer, k);
    }
  }
  graph.remove_unused_tensors();
  return rewriter.edits();
}

}  // namespace camshaft::passes
